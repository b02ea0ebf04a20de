// Tells a worker which of its sockets are ready. The worker has an epoll set of its own, level-triggered,
// which Asio's epoll set contains as one descriptor.
//
//     sockets --> [ epoll set ] --one descriptor--> [ io_context ] <-- timers, posts
//
// With Asio alone, each message costs one system call more: async_wait registers the socket again
// (epoll_ctl), and async_read_some first tries a read that finds nothing (recv, EAGAIN). With the worker's
// own set, a message costs one recv and one send, and all sockets that are ready at once share Asio's cost.
// Also, an idle connection has no pending operation, which would take memory and keep the connection alive
// (docs/decisions/0006).
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/result.hpp>
#include <sepal/session/stream.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sys/epoll.h>

namespace sepal::server {

static_assert(session::readable == EPOLLIN && session::writable == EPOLLOUT &&
              session::peer_gone == EPOLLRDHUP && session::broken == (EPOLLERR | EPOLLHUP));

// Confined to the thread that runs its io_context.
class Readiness {
 public:
  struct Event {
    void* owner;
    std::uint32_t events;
  };

  explicit Readiness(boost::asio::io_context& context) : descriptor_(context) {}

  // Errors: io.
  Result<void> open();

  // Events come with `owner` until the descriptor is closed. Closing it removes it from the set, if it
  // has no duplicate. Errors: io.
  Result<void> add(int descriptor, void* owner, std::uint32_t events);
  void change(int descriptor, void* owner, std::uint32_t events);
  // For a descriptor that stays open.
  void remove(int descriptor);

  // The sockets that are ready now; valid until the next call. Does not wait. The span goes on naming the
  // owner of a socket that is closed meanwhile: the caller must know that it is gone.
  std::span<const Event> take();

  // Calls `ready` once, from the io_context, when take() has events. Wait again only after that call.
  template <class Ready>
  void wait(Ready ready) {
    SEPAL_ASSERT(descriptor_.is_open(), "a worker waits for a set that is not open");
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(ready));
  }

 private:
  // Sockets beyond this number are found by the next take().
  static constexpr std::size_t events_max = 256;
  static_assert(events_max <= std::numeric_limits<int>::max(), "epoll_wait takes an int");

  boost::asio::posix::stream_descriptor descriptor_;
  std::array<epoll_event, events_max> found_;
  std::array<Event, events_max> events_;
};

}  // namespace sepal::server
