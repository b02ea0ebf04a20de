// One session and the worker's part of its surroundings.
#pragma once

#include <sepal/server/session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unit/server/world.hpp"

namespace sepal::server::test {

struct SessionWorld {
  static constexpr std::size_t read_buffer_bytes = 64 * 1024;

  explicit SessionWorld(bool authenticated = true)
      : ground(1),
        services(ground.services(clients)),
        dispatcher(services, ground.workers[0]),
        read_buffer(read_buffer_bytes),
        environment{.gate = ground.gate,
                    .gate_side = 0,
                    .dispatcher = dispatcher,
                    .services = services,
                    .stats = ground.workers[0],
                    .read_buffer = read_buffer,
                    .reply_buffer = reply_buffer,
                    .last_words = last_words},
        session(environment, client(authenticated)) {}

  static command::ClientState client(bool authenticated) {
    command::ClientState state;
    state.id = 1;
    state.authenticated = authenticated;
    return state;
  }

  // As much as one receive takes; the rest stays in `bytes`.
  void receive(std::string_view& bytes) {
    const std::span<char> space = session.input_space();
    const std::size_t taken = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), taken);
    session.input_arrived(taken);
    bytes.remove_prefix(taken);
  }

  // Runs one batch over what fits into one receive.
  Session::Step give(std::string_view bytes) {
    receive(bytes);
    return run();
  }

  Session::Step run() {
    const Session::Step step = session.run();
    collect();
    // As other sessions of the worker would: what was lent is used by someone else now.
    std::fill(read_buffer.begin(), read_buffer.end(), '!');
    return step;
  }

  void collect() {
    session.take_output(reply_buffer);
    output += reply_buffer;
  }

  // The replies since the last call.
  std::string taken_output() { return std::exchange(output, {}); }

  Ground ground;
  NoClients clients;
  command::Services services;
  command::Dispatcher dispatcher;
  std::vector<char> read_buffer;
  std::string reply_buffer;
  TogetherWords last_words;
  Session::Environment environment;
  Session session;
  std::string output;
};

}  // namespace sepal::server::test
