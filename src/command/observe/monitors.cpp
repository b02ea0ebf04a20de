#include <sepal/base/assert.hpp>
#include <sepal/command/observe/monitors.hpp>

#include <utility>

namespace sepal::command {

std::vector<Monitors::Monitor> Monitors::all() const {
  const MutexLock lock(mutex_);
  return monitors_;
}

void Monitors::add(Monitor monitor) {
  const MutexLock lock(mutex_);
  monitors_.push_back(monitor);
  count_.store(monitors_.size(), std::memory_order_relaxed);
}

bool Monitors::remove(std::uint64_t client_id) {
  const MutexLock lock(mutex_);
  const auto erased =
      std::erase_if(monitors_, [&](const Monitor& monitor) { return monitor.client_id == client_id; });
  SEPAL_ASSERT(erased <= 1, "a client is listed as a monitor twice");
  count_.store(monitors_.size(), std::memory_order_relaxed);
  return erased == 1;
}

std::shared_ptr<const std::string> Monitors::on_their_way(std::string lines, std::uint64_t bytes_max) {
  const std::uint64_t byte_count = lines.capacity();
  if (bytes_on_their_way_.fetch_add(byte_count) + byte_count > bytes_max) {
    bytes_on_their_way_.fetch_sub(byte_count);
    return nullptr;
  }
  return {new std::string(std::move(lines)), [this, byte_count](const std::string* sent) {
            delete sent;
            const std::uint64_t before = bytes_on_their_way_.fetch_sub(byte_count);
            SEPAL_ASSERT(before >= byte_count, "more lines arrive than were on their way");
          }};
}

}  // namespace sepal::command
