// A client, with what the scheduler knows about it.
#pragma once

#include <sepal/session/scheduler.hpp>
#include <sepal/session/session.hpp>
#include <sepal/session/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "session/outbox.hpp"

namespace sepal::session {

// Confined to its worker; only the scheduler changes it.
class Client {
 public:
  Client(const Session::Environment& environment, std::unique_ptr<Stream> its_stream,
         command::ClientState client_state, std::uint64_t its_network)
      : session(environment, std::move(client_state)), stream(std::move(its_stream)), network(its_network) {}

  [[nodiscard]] std::uint64_t id() { return session.client().id; }
  Session session;
  std::unique_ptr<Stream> stream;
  std::string replies;               // kept: they go behind the outbox
  Outbox outbox;                     // what the stream did not take
  std::uint64_t unsent_counted = 0;  // the memory of outbox and pushed that services.buffers has
  std::uint32_t wanted = readable;   // the events that the state asks for
  std::uint32_t watched = readable;  // these, and `writable` while the outbox holds something
  State state = State::reading;
  // The step that follows when the replies leave. Valid in State::kept and State::sending.
  Session::Step then = Session::Step::read;
  bool is_among_strangers = false;
  bool peer_ended = false;
  bool abandoned = false;  // it is closed when its script has ended
  bool dropped = false;    // it is no client any more, and is destroyed when the turn has ended
  SteadyTime lingers_until{};
  std::uint64_t network;            // of its address, see base/displace.hpp
  std::size_t place_of_stranger{};  // valid while it is in Strangers
  std::uint32_t asked_about = 0;    // in Scheduler::may_move(), for this call of move_share()
  // Lines of MONITOR that may not leave yet: behind what is still to come. Null: there are none.
  std::unique_ptr<std::string> pushed;
};

}  // namespace sepal::session
