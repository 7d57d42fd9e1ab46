"""What a webhook sends."""

from attrs import frozen


@frozen(kw_only=True)
class Payload:
    """The body of a request, and what it is.

    Attributes:
        body: The bytes.
        content_type: Their media type.
    """

    body: bytes
    content_type: str
