"""The answer that 2.1.329 makes up when a request does not fit into the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Json

NO_USAGE: Json = {
    "output_tokens_details": None,
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": None,
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
    "inference_geo": None,
    "iterations": None,
    "speed": None,
    "fallback_credit": None,
}


def too_long_fields(message_id: str, limits: str) -> Json:
    """Return what follows the time on the line; `limits` is the API's own arithmetic."""
    text = f"prompt is too long: {limits}"
    error = f'{{"type":"error","error":{{"type":"invalid_request_error","message":"{text}"}}}}'
    message: Json = {
        "diagnostics": None,
        "id": message_id,
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": NO_USAGE,
        "content": [{"type": "text", "text": "Prompt is too long"}],
        "context_management": None,
    }
    return {
        "message": message,
        "error": "invalid_request",
        "errorDetails": f"400 {error}",
        "isApiErrorMessage": True,
        "apiErrorStatus": 400,
        "apiErrorType": "invalid_request_error",
        "perTurnEffort": None,
        "failedResponseHadNoToolCall": True,
        "resendCannotCure": True,
        "madeBy": "model",
    }
