"""Numbers in sentences."""


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "partition"), counted(2000, "partition")
    ('1 partition', '2,000 partitions')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
