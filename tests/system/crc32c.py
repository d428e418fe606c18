"""The checksum of step frames and control messages (RFC 3720, appendix B.4), bit by bit."""


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def seal(name, body):
    """A report or an answer as CONTROL.md has it: with a checksum of the worker's name and the body."""
    return f"{body}\ncrc32c={crc32c((name + body).encode()):08x}\n"
