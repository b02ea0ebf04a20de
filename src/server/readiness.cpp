#include "server/readiness.hpp"

#include <cerrno>
#include <string>
#include <system_error>

namespace sepal::server {
namespace {

Error system_error(const char* what) {
  return fail(Errc::io, std::string(what) + ": " + std::generic_category().message(errno));
}

epoll_event event_for(void* owner, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = owner;
  return event;
}

}  // namespace

Result<void> Readiness::open() {
  SEPAL_ASSERT(!descriptor_.is_open(), "the set of a worker is opened once");
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  if (set < 0) return system_error("cannot watch connections");
  boost::system::error_code error;
  descriptor_.assign(set, error);
  if (!error) return {};
  // assign() has failed, so the descriptor still belongs to this function.
  ::close(set);
  return fail(Errc::io, "cannot watch connections: " + error.message());
}

Result<void> Readiness::add(int descriptor, void* owner, std::uint32_t events) {
  SEPAL_ASSERT(descriptor_.is_open() && descriptor >= 0 && owner != nullptr,
               "a socket is watched that is closed, or has no owner");
  epoll_event event = event_for(owner, events);
  if (::epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return system_error("cannot watch a connection");
}

void Readiness::change(int descriptor, void* owner, std::uint32_t events) {
  SEPAL_ASSERT(owner != nullptr, "events of a socket would name no owner");
  epoll_event event = event_for(owner, events);
  const int changed = ::epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_MOD, descriptor, &event);
  SEPAL_ASSERT(changed == 0, "a descriptor that is changed was added and is open");
}

void Readiness::remove(int descriptor) {
  const int removed = ::epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_DEL, descriptor, nullptr);
  SEPAL_ASSERT(removed == 0, "a descriptor that is removed was added and is open");
}

std::span<const Readiness::Event> Readiness::take() {
  const int count =
      ::epoll_wait(descriptor_.native_handle(), found_.data(), static_cast<int>(found_.size()), 0);
  // Below 0: a signal has interrupted the call. The set is level-triggered, so the next call finds the same.
  if (count <= 0) return {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    events_[i] = {.owner = found_[i].data.ptr, .events = found_[i].events};
  }
  return std::span(events_).first(static_cast<std::size_t>(count));
}

}  // namespace sepal::server
