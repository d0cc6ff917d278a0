"""Models that exist already, as the last stage of a cascade."""

from typing import TYPE_CHECKING

from emsco._utils.public_names import lazy
from emsco.learners.final_model import LoggedAnswers, OnnxModel

if TYPE_CHECKING:
    from emsco.chat.chat_model import ChatModel

__all__ = ["ChatModel", "LoggedAnswers", "OnnxModel"]

__getattr__, __dir__ = lazy(__name__, {"ChatModel": "chat.chat_model"})
