// Sessions, with the parts that a worker lends them.
#pragma once

#include <sepal/command/run/client_users.hpp>
#include <sepal/command/users/users.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unit/session/world.hpp"

namespace sepal::session::test {

// The clock of the sessions. It stands still, so that time ends no batch, unless a test lets each reading of
// the clock take some time.
struct StandingClock {
  static SteadyTime now() { return SteadyTime(std::chrono::nanoseconds(nanoseconds += look_nanoseconds)); }

  // While it lives, each reading of the clock takes so long.
  struct Slow {
    explicit Slow(std::chrono::nanoseconds look) { look_nanoseconds = look.count(); }
    ~Slow() { look_nanoseconds = 0; }
    Slow(const Slow&) = delete;
    Slow& operator=(const Slow&) = delete;
  };

  static inline std::atomic<std::chrono::nanoseconds::rep> nanoseconds{0};
  static inline std::atomic<std::chrono::nanoseconds::rep> look_nanoseconds{0};
};

// A session at one side of the gate, with the buffers that its worker lends it. Confined to one thread.
struct WorkerSession {
  static constexpr std::size_t read_buffer_bytes = 256 * 1024;

  WorkerSession(Ground& ground, command::Services& services, std::size_t side, bool authenticated = true)
      : dispatcher(services, side, &ground.gate),
        read_buffer(read_buffer_bytes),
        input(read_buffer),
        environment{.gate = ground.gate,
                    .gate_side = side,
                    .dispatcher = dispatcher,
                    .services = services,
                    .stats = ground.workers[side],
                    .input = input,
                    .reply_buffer = reply_buffer,
                    .last_words = last_words,
                    .similar_words = similar_words,
                    .steady_now = StandingClock::now},
        session(environment, client(services, authenticated)) {}

  static command::ClientState client(const command::Services& services, bool authenticated) {
    command::ClientState state;
    command::welcome(*services.users, state);
    state.id = 1;
    state.authenticated = authenticated;
    return state;
  }

  // Receives as many bytes as fit; the rest stays in `bytes`.
  void receive(std::string_view& bytes) {
    const std::span<char> space = session.input_space();
    const std::size_t taken = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), taken);
    session.input_arrived(taken);
    bytes.remove_prefix(taken);
  }

  // The memory that the first request will wait for.
  LinesAhead look_ahead() {
    LinesAhead lines;
    const GateEntered inside(environment.gate, environment.gate_side);
    session.look_ahead();
    session.collect_lines(lines);
    return lines;
  }

  // Receives once, and runs one batch.
  Session::Step give(std::string_view bytes) {
    receive(bytes);
    return run();
  }

  // Runs as many batches as necessary, and returns all replies.
  std::string ask(std::string_view bytes) {
    while (!bytes.empty()) {
      receive(bytes);
      while (run() == Session::Step::run_again) {
      }
    }
    return taken_output();
  }

  Session::Step run() {
    const Session::Step step = session.run();
    collect();
    // Overwrites the borrowed buffer, as other sessions of the worker would. memset, because a loop over so
    // many bytes in each run was most of the time of a test that sends requests in small pieces.
    const std::span<char> free = input.free();
    std::memset(free.data(), '!', free.size());
    return step;
  }

  void collect() {
    session.take_output(reply_buffer);
    output += reply_buffer;
  }

  // The replies since the last call.
  std::string taken_output() { return std::exchange(output, {}); }

  command::Dispatcher dispatcher;
  std::vector<char> read_buffer;
  SharedInput input;
  std::string reply_buffer;
  TogetherWords last_words;
  SimilarWords similar_words;
  Session::Environment environment;
  Session session;
  std::string output;
};

// The surroundings of a session that has the keyspace to itself.
struct OwnGround {
  Ground ground{1};
  command::ClientDirectory clients;
  command::Services services{ground.services(clients)};
};

struct SessionWorld : OwnGround, WorkerSession {
  explicit SessionWorld(bool authenticated = true) : WorkerSession(ground, services, 0, authenticated) {}
};

}  // namespace sepal::session::test
