// A socket and its session: receives, feeds, sends, and decides nothing that bytes depend on.
//
//            bytes                 all sent
//     reading ----> [session runs] --------> reading | queued (for its next turn) | waiting (for an answer,
//                        |  ^                                  |                    or for the journal)
//     kept, or not sent  v  | all sent          last reply sent v
//                      sending                             lingering --> closed
//
// Replies that nothing but the client waits for are kept, and leave in a row with those of others, when the
// worker says. Sending wakes a client that sleeps, which in a virtual machine takes ten microseconds and
// more: again for each batch, when the client is done with one reply before the next is there. And sending is
// a walk through the kernel, behind which a core finds its caches emptied of whatever runs requests.
//
// While replies wait to be sent nothing is read: a slow reader is held back by its own TCP window. Lingering
// makes sure that the last reply arrives: closing a socket that holds unread bytes resets the connection, and
// a reset may overtake the reply. So the sending side is shut first, and what still comes is read and thrown
// away until the peer closes as well, or until linger_max has passed. At a stop, when all clients linger at
// once and few of them look, it is enough that the peer's system has acknowledged all.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/client_state.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/server/session.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "descriptor.hpp"
#include "readiness.hpp"
#include "spare_buffers.hpp"

namespace sepal::server {

inline constexpr std::chrono::seconds linger_max{1};

// Confined to its worker.
class Connection {
 public:
  // What the worker does next.
  enum class Then : std::uint8_t {
    keep,    // the set of readiness tells when there is more to do
    run,     // requests may have arrived: call run() soon, and if others run first let the session look ahead
    send,    // replies were kept: call send_kept() soon, and before waiting for readiness
    queue,   // call run() after the others had their turn
    hold,    // call release() when the session's held_until() is durable
    later,   // call run() when the journal has made progress
    linger,  // no client any more: keep it until it is ready to be destroyed, but list and count it no longer
    close,   // destroy it
  };
  enum class Kind : std::uint8_t { tcp, unix_socket };

  // `descriptor` does not block. Watch it for `readable` with this as the owner.
  Connection(Descriptor descriptor, Kind kind, const Session::Environment& environment, SpareBuffers& spares,
             Readiness& readiness, command::ClientState client);

  Then on_ready(std::uint32_t events);
  Then run();
  Then send_kept();
  Then answer(const std::function<void(resp::Reply&)>& append);
  Then release();
  // Reads a last time, runs what has arrived, sends the replies, closes. A client that waits for an answer is
  // closed at once: what it waits for may be the stop. One that waits for the journal waits on.
  Then stop();

  // For the sweep: whether a client that does nothing for `idle_timeout` (0: for ever), or lingers, is to be
  // closed.
  [[nodiscard]] bool expired(SteadyTime now, std::chrono::seconds idle_timeout) const;

  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  [[nodiscard]] std::uint64_t id() { return session_.client().id; }
  [[nodiscard]] Session& session() { return session_; }

 private:
  enum class Phase : std::uint8_t { reading, sending, queued, waiting, held, lingering };

  Then receive();
  Then carry_on(Session::Step step);
  [[nodiscard]] bool may_keep(Session::Step step) const;
  Then proceed(Session::Step step);
  Then finish();
  Then discard();
  bool send_output();
  bool send_unsent();
  void give_back_unsent();
  void watch(std::uint32_t events);
  [[nodiscard]] bool all_is_acknowledged() const;

  Descriptor descriptor_;
  Readiness& readiness_;
  std::string& reply_buffer_;  // the worker's
  SpareBuffers& spares_;       // the worker's
  Session session_;
  std::string unsent_;  // replies that were kept, or that the socket did not take
  std::size_t unsent_begin_ = 0;
  std::uint32_t watched_ = readable;
  Kind kind_;
  Phase phase_ = Phase::reading;
  Session::Step after_sending_ = Session::Step::read;
  bool peer_ended_ = false;
  bool stopping_ = false;
  SteadyTime linger_until_{};
};

}  // namespace sepal::server
