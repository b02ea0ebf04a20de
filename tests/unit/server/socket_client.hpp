// A client for tests. It blocks, but never beyond its deadline.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/eventually.hpp"

namespace sepal::server::test {

using sepal::test::eventually;
using sepal::test::patience;

class SocketClient {
 public:
  // Loopback.
  explicit SocketClient(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  // A UNIX socket.
  explicit SocketClient(const std::string& path)
      : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~SocketClient() { ::close(descriptor_); }
  SocketClient(const SocketClient&) = delete;
  SocketClient& operator=(const SocketClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t sent = send_some(bytes, patience);
      if (sent == 0) return false;
      bytes.remove_prefix(sent);
    }
    return true;
  }

  // Returns 0 if the socket takes nothing within `wait`.
  std::size_t send_some(std::string_view bytes, std::chrono::milliseconds wait) {
    if (!ready(POLLOUT, wait)) return 0;
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }

  // Receives so many bytes, or fewer if the server closes or the deadline passes.
  std::string receive(std::size_t byte_count) {
    std::string bytes;
    while (bytes.size() < byte_count && receive_some(bytes, byte_count - bytes.size())) {
    }
    return bytes;
  }

  // Receives until the server closes. If it does not close, or resets the connection, the result says so.
  std::string receive_until_closed() {
    std::string bytes;
    while (receive_some(bytes, 64 * 1024)) {
    }
    return bytes + ending_;
  }

  std::string ask(std::string_view bytes, std::size_t reply_bytes) {
    return send(bytes) ? receive(reply_bytes) : "";
  }

  // Whether bytes or the end arrive within this time.
  [[nodiscard]] bool readable(std::chrono::milliseconds wait) const { return ready(POLLIN, wait); }

  void end_sending() { ::shutdown(descriptor_, SHUT_WR); }

 private:
  bool ready(short events, std::chrono::milliseconds wait) const {
    pollfd watched{.fd = descriptor_, .events = events, .revents = 0};
    return ::poll(&watched, 1, static_cast<int>(wait.count())) == 1;
  }

  bool receive_some(std::string& bytes, std::size_t byte_count_max) {
    ending_ = "(still open)";
    if (!ready(POLLIN, patience)) return false;
    const std::size_t before = bytes.size();
    bytes.resize(before + byte_count_max);
    const ssize_t received = ::recv(descriptor_, bytes.data() + before, byte_count_max, 0);
    bytes.resize(before + (received > 0 ? static_cast<std::size_t>(received) : 0));
    ending_ = received < 0 ? std::strerror(errno) : "";
    return received > 0;
  }

  int descriptor_;
  bool connected_ = false;
  std::string ending_;
};

}  // namespace sepal::server::test
