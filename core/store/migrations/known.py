"""The list that every migration of the store puts itself into."""

from __future__ import annotations

from typing import Final

from sqlite_utils import Migrations

from ..store_schema import MIGRATION_SET

migrations: Final = Migrations(MIGRATION_SET)
