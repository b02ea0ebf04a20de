// Sessions of one worker that are served in a round.
#pragma once

#include <sepal/session/first_requests.hpp>
#include <sepal/session/session.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "unit/session/session_world.hpp"

namespace sepal::session::test {

// The sessions of the round do not include the world's own session.
struct RoundWorld : SessionWorld {
  explicit RoundWorld(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      sessions.push_back(
          std::make_unique<Session>(environment, WorkerSession::client(environment.services, true)));
  }

  void receive(std::size_t index, const std::string& bytes) {
    std::ranges::copy(bytes, sessions[index]->input_space().begin());
    sessions[index]->input_arrived(bytes.size());
  }
  // Session i receives bytes[i].
  void receive(const std::vector<std::string>& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) receive(i, bytes[i]);
  }
  void look_ahead() {
    std::vector<Session*> all;
    for (const auto& each : sessions) all.push_back(each.get());
    FirstRequests::look_ahead(environment, all);
  }
  std::string replies(std::size_t index) {
    std::string taken;
    sessions[index]->take_output(taken);
    return taken;
  }
  std::string run(std::size_t index) {
    while (sessions[index]->run() == Session::Step::run_again) continue;
    return replies(index);
  }
  // Runs a whole round. Returns the replies of each session.
  std::vector<std::string> round(const std::vector<std::string>& bytes) {
    receive(bytes);
    look_ahead();
    std::vector<std::string> all;
    for (std::size_t i = 0; i < sessions.size(); ++i) all.push_back(run(i));
    return all;
  }

  std::vector<std::unique_ptr<Session>> sessions;
};

}  // namespace sepal::session::test
