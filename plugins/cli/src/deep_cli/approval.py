"""Who asks on a terminal by itself imports from here: how calls that wait become questions, and answers decisions."""

from .run.approval import Answer, ApprovalMode, Approver, Ask, Question, Refusal, questions

__all__ = ["Answer", "ApprovalMode", "Approver", "Ask", "Question", "Refusal", "questions"]
