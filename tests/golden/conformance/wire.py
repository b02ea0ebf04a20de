"""RESP2 and RESP3 on a socket, for replay.py and record.py. Standard library only."""
import re
import select
import socket
import time

MAX_REPLY = 1 << 28      # refuse to buffer more than this for one reply
MAX_DEPTH = 64


class Closed(Exception):
    """The server closed (or reset) the connection."""


class Timeout(Exception):
    pass


class BadReply(Exception):
    """Bytes that are not RESP."""


class Incomplete(Exception):
    pass


def enc(s):
    """Corpus string -> bytes: code points 0..255 are the bytes."""
    return s.encode("latin-1")


def dec(b):
    return bytes(b).decode("latin-1")


def encode_command(args):
    out = [b"*%d\r\n" % len(args)]
    for a in args:
        out.append(b"$%d\r\n" % len(a))
        out.append(a)
        out.append(b"\r\n")
    return b"".join(out)


def _line(buf, pos):
    end = buf.find(b"\r\n", pos)
    if end < 0:
        if len(buf) - pos > (1 << 22):
            raise BadReply("no CRLF in %d bytes" % (len(buf) - pos))
        raise Incomplete()
    return bytes(buf[pos:end]), end + 2


def _num(line, what):
    try:
        if not re.fullmatch(rb"[+-]?\d+", line):
            raise ValueError
        return int(line)
    except ValueError:
        raise BadReply("bad %s %r" % (what, line[:60]))


def parse(buf, pos=0, depth=0):
    """Parse one reply at buf[pos:]; returns (reply, next position)."""
    if depth > MAX_DEPTH:
        raise BadReply("nested too deeply")
    if pos >= len(buf):
        raise Incomplete()
    t = chr(buf[pos])
    if t not in "+-:$*_%~#,(=>!|":
        raise BadReply("unexpected type byte %r, bytes %r" % (t, bytes(buf[pos:pos + 40])))
    line, pos = _line(buf, pos + 1)
    if t in "+-":
        return {"t": t, "v": dec(line)}, pos
    if t == ":":
        return {"t": t, "v": _num(line, "integer")}, pos
    if t == "(":
        return {"t": t, "v": dec(line)}, pos
    if t == ",":
        return {"t": t, "v": dec(line)}, pos
    if t == "#":
        if line not in (b"t", b"f"):
            raise BadReply("bad boolean %r" % line[:60])
        return {"t": t, "v": line == b"t"}, pos
    if t == "_":
        if line:
            raise BadReply("bad null %r" % line[:60])
        return {"t": t}, pos
    n = _num(line, "length")
    if t in "$=!":
        if n == -1 and t == "$":
            return {"t": t, "v": None}, pos
        if n < 0 or n > MAX_REPLY:
            raise BadReply("bad bulk length %d" % n)
        if len(buf) < pos + n + 2:
            raise Incomplete()
        if bytes(buf[pos + n:pos + n + 2]) != b"\r\n":
            raise BadReply("bulk of %d bytes is not followed by CRLF" % n)
        return {"t": t, "v": dec(buf[pos:pos + n])}, pos + n + 2
    if n == -1 and t == "*":
        return {"t": t, "v": None}, pos
    if n < 0 or n > (1 << 28):
        raise BadReply("bad aggregate length %d" % n)
    if t in "%|":
        pairs = []
        for _ in range(n):
            k, pos = parse(buf, pos, depth + 1)
            v, pos = parse(buf, pos, depth + 1)
            pairs.append([k, v])
        return {"t": t, "v": pairs}, pos
    items = []
    for _ in range(n):
        v, pos = parse(buf, pos, depth + 1)
        items.append(v)
    return {"t": t, "v": items}, pos


class Conn:
    def __init__(self, host, port, timeout):
        self.timeout = timeout
        self.buf = bytearray()
        self.eof = False
        self.sock = socket.create_connection((host, port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)

    def close(self):
        try:
            self.sock.close()
        except OSError:
            pass

    def half_close(self):
        """No more data from us; replies can still arrive."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _read_some(self):
        """Non-blocking read into the buffer; False if nothing was there."""
        if self.eof:
            return False
        try:
            data = self.sock.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.eof = True
            return True
        if not data:
            self.eof = True
        else:
            self.buf += data
            if len(self.buf) > MAX_REPLY:
                raise BadReply("more than %d bytes of reply" % MAX_REPLY)
        return True

    def _wait(self, deadline, write=False):
        left = deadline - time.monotonic()
        if left <= 0:
            raise Timeout()
        r, w, _ = select.select([] if self.eof else [self.sock],
                                [self.sock] if write else [], [], left)
        if not r and not w:
            raise Timeout()
        return bool(r), bool(w)

    def send(self, data, deadline):
        view = memoryview(data)
        while len(view):
            r, w = self._wait(deadline, write=True)
            if r:
                self._read_some()
            if w:
                try:
                    n = self.sock.send(view[:1 << 18])
                except (BlockingIOError, InterruptedError):
                    n = 0
                except OSError:
                    # the server is gone; replies already received still count
                    self._drain()
                    self.eof = True
                    return
                view = view[n:]
            if self.eof and not r:
                return

    def _drain(self):
        for _ in range(1000):
            if not self._read_some() or self.eof:
                return

    def reply(self, deadline):
        tried = -1
        while True:
            if len(self.buf) != tried:
                tried = len(self.buf)
                try:
                    value, pos = parse(self.buf)
                    del self.buf[:pos]
                    return value
                except Incomplete:
                    pass
            if self.eof:
                raise Closed()
            self._wait(deadline)
            self._read_some()

    def wait_closed(self, deadline):
        """Returns None when the peer closed without sending more."""
        while not self.eof:
            self._wait(deadline)
            self._read_some()
            if self.buf:
                return "unexpected bytes %r" % bytes(self.buf[:80])
        return "unexpected bytes %r" % bytes(self.buf[:80]) if self.buf else None

    def quiet(self, ms):
        """Returns None when nothing arrives for ms milliseconds."""
        if self.buf:
            return "unexpected bytes %r" % bytes(self.buf[:80])
        end = time.monotonic() + ms / 1000.0
        while True:
            if self.eof:
                return "connection closed"
            try:
                self._wait(end)
            except Timeout:
                return None
            self._read_some()
            if self.buf:
                return "unexpected bytes %r" % bytes(self.buf[:80])
