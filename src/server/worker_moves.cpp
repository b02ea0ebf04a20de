// How clients move from worker to worker.
#include <boost/asio/post.hpp>

#include <utility>

#include "server/worker.hpp"

namespace sepal::server {

void Worker::give(Worker& heir, double share) {
  SEPAL_ASSERT(&heir != this, "a worker gives clients to itself");
  boost::asio::post(context_, [this, &heir, share] {
    if (stopping_) return;
    heir_ = &heir;
    scheduler_.move_share(share);
  });
}

void Worker::give_none() {
  boost::asio::post(context_, [this] { heir_ = nullptr; });
}

// In one stay inside the gate: a thread that closes the gate finds the client at one worker or the other. A
// client that it marks to be closed moves no more, and kill() comes to the worker that has the client then:
// if it was on its way here, take_inbox() was posted before.
bool Worker::give_away(session::Client& client) {
  const GateEntered inside(gate_, index_);
  if (!scheduler_.may_move(client) || !heir_->inherit(scheduler_, client)) return false;
  socket_closed();
  return true;
}

// Called by the worker that gives the client. False: this worker stops, and takes none.
bool Worker::inherit(session::Scheduler& scheduler, session::Client& client) {
  const MutexLock lock(inbox_mutex_);
  if (inbox_closed_) return false;
  load_.fetch_add(1, std::memory_order_relaxed);
  inbox_.push_back(scheduler.move_out(client));
  static_cast<WatchedStream&>(*inbox_.back().stream).leave();
  // The first one asks for all that come until they are taken.
  if (inbox_.size() == 1) boost::asio::post(context_, [this] { take_inbox(); });
  return true;
}

void Worker::take_inbox() {
  std::vector<std::pair<Added, std::uint64_t>> taken;
  {
    const GateEntered inside(gate_, index_);
    const MutexLock lock(inbox_mutex_);
    for (session::Scheduler::Moved& moved : inbox_) {
      auto& stream = static_cast<WatchedStream&>(*moved.stream);
      const std::uint64_t id = moved.client.id;
      session::Client& client =
          scheduler_.add(std::move(moved.stream), std::move(moved.client), moved.network);
      taken.push_back({{.client = client, .stream = stream}, id});
    }
    inbox_.clear();
  }
  for (const auto& [added, id] : taken) watch(added, id);
}

}  // namespace sepal::server
