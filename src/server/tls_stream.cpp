#include "server/tls_stream.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <utility>

namespace sepal::server {

using tls::Connection;

void UnreadStreams::add(TlsStream& stream) {
  streams_.push_back(&stream);
  added_();
}

void UnreadStreams::remove(TlsStream& stream) {
  const auto removed = std::erase(streams_, &stream);
  SEPAL_ASSERT(removed == 1, "a stream that is listed is listed once");
}

TlsStream::TlsStream(SocketStream socket, std::unique_ptr<Connection> connection)
    : socket_(std::move(socket)), connection_(std::move(connection)) {
  SEPAL_ASSERT(connection_ != nullptr, "a TLS stream without TLS");
}

// A client that has ended its side may wait for the end of the other one.
TlsStream::~TlsStream() {
  if (is_listed_) unread_->remove(*this);
  connection_->end();
}

// With the last bytes of the handshake, the first request may have come; and OpenSSL may hold bytes of a
// client that comes from another worker.
Result<void> TlsStream::watch_for(session::Client& owner, Readiness& readiness, UnreadStreams& unread) {
  if (auto watched = socket_.watch_for(owner, readiness, unread); !watched) return watched;
  unread_ = &unread;
  note_unread(true);
  return {};
}

void TlsStream::leave() {
  note_unread(false);
  socket_.leave();
}

// OpenSSL gives the bytes of one record at a time. What the socket still has, it tells in the next turn: so
// the loop ends when OpenSSL holds nothing, and a short request takes one read. The end of the connection,
// and an error, come again at the next call, so bytes that came before them are told first.
session::Stream::Transfer TlsStream::receive(std::span<char> into) {
  std::size_t count = 0;
  auto status = Connection::Status::done;
  while (count < into.size()) {
    const Connection::Transfer piece = connection_->receive(into.subspan(count));
    status = piece.status;
    if (status != Connection::Status::done) break;
    count += piece.byte_count;
    if (!connection_->holds_bytes()) break;
  }
  const bool waits = status == Connection::Status::wants_read || status == Connection::Status::wants_write;
  want_to_write(status == Connection::Status::wants_write);
  note_unread(!waits && count > 0 && (status != Connection::Status::done || connection_->holds_bytes()));
  if (count > 0) return {.status = Status::done, .byte_count = count};
  if (waits) return {.status = Status::again};
  return {.status = status == Connection::Status::ended ? Status::ended : Status::failed};
}

// Each call of OpenSSL takes one record. What it has encrypted and cannot send, it keeps, and asks for the
// same bytes again: the scheduler sends them again, as Stream::send() says.
session::Stream::Transfer TlsStream::send(std::string_view bytes) {
  std::size_t count = 0;
  while (count < bytes.size()) {
    const Connection::Transfer piece = connection_->send(bytes.substr(count));
    if (piece.status == Connection::Status::failed) return {.status = Status::failed};
    if (piece.status != Connection::Status::done) break;
    count += piece.byte_count;
  }
  return {.status = count > 0 ? Status::done : Status::again, .byte_count = count};
}

void TlsStream::watch(std::uint32_t events) {
  watched_ = events;
  socket_.watch(events | (wants_to_write_ ? session::writable : 0));
  // The scheduler may have begun, or ceased, to wait for `readable`: the stream goes into the list or leaves
  // it.
  note_unread(holds_bytes_);
}

bool TlsStream::end() {
  // TLS has an end of its own. It must leave before the sending side of the socket ends.
  connection_->end();
  return socket_.end();
}

void TlsStream::note_unread(bool holds_bytes) {
  holds_bytes_ = holds_bytes;
  const bool is_told = holds_bytes && (watched_ & session::readable) != 0;
  if (std::exchange(is_listed_, is_told) == is_told) return;
  if (is_told) {
    unread_->add(*this);
  } else {
    unread_->remove(*this);
  }
}

// Only a change of keys leads here, when the socket takes no bytes at that moment.
void TlsStream::want_to_write(bool wants) {
  if (std::exchange(wants_to_write_, wants) == wants) return;
  socket_.watch(watched_ | (wants ? session::writable : 0));
}

}  // namespace sepal::server
