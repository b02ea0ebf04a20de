#include "server/socket_stream.hpp"

#include <sepal/base/assert.hpp>

#include <cerrno>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>

namespace sepal::server {
namespace {

session::Stream::Transfer transferred(ssize_t count) {
  using Status = session::Stream::Status;
  if (count > 0) return {.status = Status::done, .byte_count = static_cast<std::size_t>(count)};
  if (count == 0) return {.status = Status::ended};
  // An interrupted call is tried again later: the epoll set is level-triggered and tells the socket once
  // more.
  const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return {.status = again ? Status::again : Status::failed};
}

}  // namespace

SocketStream::SocketStream(Descriptor descriptor, StreamKind kind)
    : descriptor_(std::move(descriptor)), kind_(kind) {
  SEPAL_ASSERT(descriptor_.is_open(), "a stream without a socket");
}

Result<void> SocketStream::watch_for(session::Client& owner, Readiness& readiness,
                                     UnreadStreams& /*unread*/) {
  SEPAL_ASSERT(owner_ == nullptr, "a socket has one owner");
  owner_ = &owner;
  readiness_ = &readiness;
  return readiness.add(descriptor_.number(), &owner, session::readable);
}

void SocketStream::leave() {
  SEPAL_ASSERT(owner_ != nullptr, "a socket leaves a worker that does not watch it");
  owner_ = nullptr;
  std::exchange(readiness_, nullptr)->remove(descriptor_.number());
}

session::Stream::Transfer SocketStream::receive(std::span<char> into) {
  SEPAL_ASSERT(!into.empty(), "a receive into no memory looks like the end of the stream");
  return transferred(::recv(descriptor_.number(), into.data(), into.size(), 0));
}

session::Stream::Transfer SocketStream::send(std::string_view bytes) {
  SEPAL_ASSERT(!bytes.empty(), "a send of nothing looks like the end of the stream");
  return transferred(::send(descriptor_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void SocketStream::watch(std::uint32_t events) {
  SEPAL_ASSERT(owner_ != nullptr, "a socket is watched before it has an owner");
  readiness_->change(descriptor_.number(), owner_, events);
}

bool SocketStream::end() {
  return kind_ != StreamKind::unix_socket && ::shutdown(descriptor_.number(), SHUT_WR) == 0;
}

bool SocketStream::all_is_acknowledged() const {
  // For TCP, SIOCOUTQ counts the bytes in the send queue, which keeps them until the peer's system
  // acknowledges them.
  int unacknowledged_bytes = 0;
  return ::ioctl(descriptor_.number(), SIOCOUTQ, &unacknowledged_bytes) == 0 && unacknowledged_bytes == 0;
}

}  // namespace sepal::server
