// Which connections of a worker are ready: an epoll set of its own, level-triggered, inside Asio's.
//
//     sockets --> [ epoll set ] --one descriptor--> [ io_context ] <-- timers, posts
//
// Asio pays one more system call for each message: a wait registers anew (epoll_ctl), a read tries first and
// finds nothing (recv, EAGAIN). With a set of its own, a message costs its recv and its send; what Asio costs
// is shared by all that are ready at once. It also leaves no operation under way that would keep a connection
// alive, and no memory for one in each that is idle.
#pragma once

#include <sepal/base/result.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <sys/epoll.h>

namespace sepal::server {

// Bits of epoll_event::events.
inline constexpr std::uint32_t readable = EPOLLIN;
inline constexpr std::uint32_t writable = EPOLLOUT;
inline constexpr std::uint32_t peer_gone = EPOLLRDHUP;        // it sends no more
inline constexpr std::uint32_t broken = EPOLLERR | EPOLLHUP;  // told without being asked for

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

  // `owner` comes back with the events, until the descriptor is closed. Errors: io.
  Result<void> add(int descriptor, void* owner, std::uint32_t events);
  void change(int descriptor, void* owner, std::uint32_t events);

  // What is ready now; valid until the next call. Does not wait.
  std::span<const Event> take();

  // Calls `ready` once, from the io_context, when take() has something. One call at a time.
  template <class Ready>
  void wait(Ready ready) {
    descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(ready));
  }

 private:
  static constexpr std::size_t events_max = 256;

  boost::asio::posix::stream_descriptor descriptor_;
  std::array<epoll_event, events_max> found_;
  std::array<Event, events_max> events_;
};

}  // namespace sepal::server
