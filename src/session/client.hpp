// A client, with what the scheduler knows about it.
#pragma once

#include <sepal/session/scheduler.hpp>
#include <sepal/session/session.hpp>
#include <sepal/session/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sepal::session {

// Confined to its worker; only the scheduler changes it.
class Client {
 public:
  Client(const Session::Environment& environment, std::unique_ptr<Stream> its_stream,
         command::ClientState client_state)
      : session(environment, std::move(client_state)), stream(std::move(its_stream)) {}

  [[nodiscard]] std::uint64_t id() { return session.client().id; }
  [[nodiscard]] std::string_view unsent() const { return std::string_view(replies).substr(sent_bytes); }

  Session session;
  std::unique_ptr<Stream> stream;
  State state = State::reading;
  // The step that follows when all replies are sent. Valid in State::kept and State::sending.
  Session::Step then = Session::Step::read;
  std::string replies;         // kept, or the rest that the stream did not take
  std::size_t sent_bytes = 0;  // how much of `replies` is sent
  std::uint32_t watched = readable;
  bool peer_ended = false;
  SteadyTime lingers_until{};
};

}  // namespace sepal::session
