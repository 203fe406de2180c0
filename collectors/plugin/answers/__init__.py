"""What hooks answer: one module per feature, each with `answer(call) -> HookReply | None`."""
