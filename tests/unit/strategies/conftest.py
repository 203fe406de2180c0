"""The session that most strategies are tested on."""

import pytest

from tests.worked import Session


@pytest.fixture
def session() -> Session:
    story = Session()
    story.ask("mend the decoder")
    story.say("I look.")
    return story
