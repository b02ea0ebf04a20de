// A session takes bytes and gives bytes plus a next step. It knows no socket and no thread: the connection around
// it reads, feeds, writes and times out, and decides nothing.
//
//     bytes in --> [ input | parser ] --> dispatcher --> [ reply ] --> bytes out
//
// A batch is all complete requests that have arrived, bounded by batch_requests_max and by the replies it may
// pile up. It runs inside the gate, entered once; a request that needs to be alone closes it for the rest of the
// batch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <sepal/base/gate.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/resp/request_parser.hpp>

namespace sepal::server {

// Requests that one connection may run before others of its worker get their turn.
inline constexpr std::size_t batch_requests_max = 1024;

// Confined to its worker.
class Session {
 public:
  // What belongs to the worker and outlives the session.
  struct Environment {
    Gate& gate;
    std::size_t gate_side;
    command::Dispatcher& dispatcher;
    command::Services& services;
    command::WorkerStats& stats;
  };

  enum class Step : std::uint8_t {
    read,        // wait for bytes
    run_again,   // requests are waiting: let other connections have their turn, then call run() again
    drain,       // too many replies wait: read and run nothing until they are sent, then call run() again
    wait,        // a command answers later: read and run nothing until answer()
    close,       // send output(), then close
  };

  Session(const Environment& environment, command::ClientState client);

  // Where to read to: at least `read_bytes_min` free bytes behind what is unparsed. Valid until the next call of
  // any member.
  [[nodiscard]] std::span<char> input_space();
  void input_arrived(std::size_t byte_count);
  // The peer sends no more: what is complete is still run and answered.
  void input_ended();

  // Runs one batch.
  Step run();

  // Takes the replies to be sent; empty when there are none. `into` is emptied first and its memory reused.
  void take_output(std::string& into);
  [[nodiscard]] bool has_output() const { return reply_.size() > 0; }
  // Keeps the client's figures: what waits to be sent.
  void output_pending(std::uint64_t byte_count, std::uint64_t sent_now);

  // Ends Step::wait.
  void answer(const std::function<void(resp::Reply&)>& append);

  [[nodiscard]] command::ClientState& client() { return client_; }
  // Gives memory back that a large request or reply needed. Called when a connection falls idle.
  void shrink();

 private:
  Environment environment_;
  command::ClientState client_;
  resp::RequestParser parser_;
  resp::Reply reply_;
  std::string input_;
};

}  // namespace sepal::server
