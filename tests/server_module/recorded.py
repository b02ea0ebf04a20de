"""Takes from RedisBloom's recorded files what sepal.so and Redis 7.0 know: filters, and strings.

The files are of Redis 7.4, and have values of RedisBloom's other types, which no server without that module reads."""

FILTERS = b"MBbloom--", b"MBbloomCF"
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# Types of values that are one string of bytes.
STRING_TYPES = {0, 9, 10, 11, 12, 13, 16, 17, 20}
LIST_OF_PACKS, STREAM, MODULE = 18, 21, 7


class Reader:
    def __init__(self, data, at):
        self.data, self.at = data, at

    def bytes(self, count):
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count:self.at]

    def length(self):
        """A length, and whether it means a special string instead."""
        first = self.bytes(1)[0]
        kind = first >> 6
        if kind == 0:
            return first & 63, False
        if kind == 1:
            return (first & 63) << 8 | self.bytes(1)[0], False
        if kind == 2:
            return int.from_bytes(self.bytes(4 if first == 0x80 else 8), "big"), False
        return first & 63, True

    def string(self):
        length, special = self.length()
        if not special:
            self.bytes(length)
        elif length < 3:
            self.bytes(1 << length)
        else:
            packed, _ = self.length()
            self.length()
            self.bytes(packed)

    def module(self):
        """Skips the value, and returns the name of its type."""
        number, _ = self.length()
        name = bytes(LETTERS[number >> 10 + 6 * (8 - i) & 63] for i in range(9))
        while (opcode := self.length()[0]) != 0:
            if opcode in (1, 2):
                self.length()
            elif opcode in (3, 4):
                self.bytes(4 if opcode == 3 else 8)
            else:
                self.string()
        return name

    def lengths(self, count):
        for _ in range(count):
            self.length()

    def stream(self):
        for _ in range(2 * self.length()[0]):
            self.string()
        self.lengths(8)
        for _ in range(self.length()[0]):  # groups
            self.string()
            self.lengths(3)
            for _ in range(self.length()[0]):  # entries that are pending
                self.bytes(16 + 8)
                self.length()
            for _ in range(self.length()[0]):  # consumers
                self.string()
                self.bytes(8 + 8)
                self.bytes(16 * self.length()[0])

    def value(self, kind):
        """Skips the value. Returns whether the servers under test know it."""
        if kind == MODULE:
            return self.module() in FILTERS
        if kind == STREAM:
            self.stream()
            return False
        if kind == LIST_OF_PACKS:
            for _ in range(self.length()[0]):
                self.length()
                self.string()
            return False
        assert kind in STRING_TYPES, kind
        self.string()
        return kind == 0


def rdb_of_filters(rdb):
    """Without other types and without the checksum, and of the version that Redis 7.0 reads."""
    reader = Reader(rdb, 9)
    kept = bytearray(b"REDIS0010")
    prefix = b""  # what stands before a key and belongs to it
    while True:
        begin = reader.at
        opcode = reader.bytes(1)[0]
        if opcode == 0xff:
            return bytes(kept) + b"\xff" + bytes(8)
        if opcode in (0xfa, 0xfb, 0xfe):
            for _ in range({0xfa: 2, 0xfb: 2, 0xfe: 1}[opcode]):
                reader.string() if opcode == 0xfa else reader.length()
            # The sizes of tables are hints, and the files' other facts are about another server.
            kept += rdb[begin:reader.at] if opcode == 0xfe else b""
        elif opcode in (0xfc, 0xf9, 0xf8):
            reader.length() if opcode == 0xf8 else reader.bytes({0xfc: 8, 0xf9: 1}[opcode])
            prefix += rdb[begin:reader.at]
        else:
            reader.string()
            if reader.value(opcode):
                kept += prefix + rdb[begin:reader.at]
            prefix = b""


def aof_of_filters(aof):
    """The commands that concern filters and strings."""
    at, kept, gone = 0, bytearray(), set()
    while at < len(aof):
        begin = at
        words = []
        if aof[at:at + 1] == b"#":  # a line with the time
            at = aof.index(b"\n", at) + 1
            continue
        end = aof.index(b"\r\n", at)
        count, at = int(aof[at + 1:end]), end + 2
        for _ in range(count):
            end = aof.index(b"\r\n", at)
            length = int(aof[at + 1:end])
            words.append(aof[end + 2:end + 2 + length])
            at = end + 4 + length
        name = words[0].upper()
        known = name in (b"SELECT", b"SET", b"PEXPIREAT", b"MULTI", b"EXEC") or name.startswith((b"BF.", b"CF."))
        if not known and count > 1:
            gone.add(words[1])
        if known and not (name == b"PEXPIREAT" and words[1] in gone):
            kept += aof[begin:at]
    return bytes(kept)

