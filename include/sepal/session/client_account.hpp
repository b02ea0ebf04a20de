// What the figures of all clients have of one client: the memory that it takes, and its bytes.
#pragma once

#include <sepal/command/run/client_state.hpp>
#include <sepal/command/run/services.hpp>

#include <cstdint>
#include <utility>

namespace sepal::session {

// Confined to its worker. Takes what it has put into `buffers` back when it ends.
class ClientAccount {
 public:
  explicit ClientAccount(command::ClientBuffers& buffers) : buffers_(buffers) {}
  ~ClientAccount() { clear(); }
  ClientAccount(const ClientAccount&) = delete;
  ClientAccount& operator=(const ClientAccount&) = delete;

  // The memory of requests, and the part of it that a stranger takes: a client that must log in.
  void set_requests(std::uint64_t bytes, std::uint64_t of_stranger) {
    grew_ = grew_ || bytes > requests_;
    buffers_.change_requests(std::exchange(requests_, bytes), bytes);
    buffers_.change_strangers(std::exchange(strangers_, of_stranger), of_stranger);
  }
  // The memory of replies. Returns what they take more than before: the difference may wrap.
  std::uint64_t set_replies(std::uint64_t bytes) {
    grew_ = grew_ || bytes > replies_;
    buffers_.change_replies(replies_, bytes);
    return bytes - std::exchange(replies_, bytes);
  }
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::uint64_t of_stranger() const { return strangers_; }
  [[nodiscard]] std::uint64_t replies() const { return replies_; }
  void clear() {
    set_requests(0, 0);
    set_replies(0);
  }
  // Whether the client takes more memory since the last call. Only growth can lead over a bound, so only
  // growth makes the worker look.
  [[nodiscard]] bool take_grew() { return std::exchange(grew_, false); }

  void received(std::uint64_t byte_count) { bytes_in_ += byte_count; }
  void sent(std::uint64_t byte_count) { bytes_out_ += byte_count; }
  // Adds them to the figures of the client and of its worker. Inside the gate.
  void settle(command::ClientState& client, command::WorkerStats& stats) {
    client.bytes_read += bytes_in_;
    client.bytes_written += bytes_out_;
    stats.bytes_in.add(std::exchange(bytes_in_, 0));
    stats.bytes_out.add(std::exchange(bytes_out_, 0));
  }

 private:
  command::ClientBuffers& buffers_;
  std::uint64_t requests_ = 0;
  std::uint64_t strangers_ = 0;
  std::uint64_t replies_ = 0;
  bool grew_ = false;
  std::uint64_t bytes_in_ = 0;  // not yet in the figures
  std::uint64_t bytes_out_ = 0;
};

}  // namespace sepal::session
