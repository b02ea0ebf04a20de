// How clients leave for another worker.
#include <sepal/base/assert.hpp>
#include <sepal/session/scheduler.hpp>

#include <utility>

#include "session/client.hpp"
#include "session/strangers.hpp"

namespace sepal::session {

void Scheduler::move_share(double share) {
  SEPAL_ASSERT(share >= 0 && share <= 1, "a share of the clients is a part of them");
  share_ = share;
  const bool has_heavy = std::exchange(long_batches_before_, long_batches()) != long_batches();
  share_due_ = has_heavy ? 1 - share : 0;
  heavy_stays_ = false;
  ++share_number_;
}

bool Scheduler::can_move(const Client& client) {
  return client.state == State::reading && !client.dropped && !client.abandoned && !client.peer_ended &&
         client.outbox.empty() && client.pushed == nullptr && client.session.can_move();
}

// A share below 1 leaves the first client where it is: a worker would pass on its only client for ever. If
// one has long batches, it is that one: the others leave it, the first at once, until it has the worker for
// itself.
bool Scheduler::may_move(Client& client) {
  if (share_ >= 1) return can_move(client);
  if (share_ == 0 || client.asked_about == share_number_ || !can_move(client)) return false;
  client.asked_about = share_number_;
  share_due_ += share_;
  const bool is_heavy = client.session.last_run_until() - client.session.last_run_at() >= long_batch_min;
  if ((is_heavy && !std::exchange(heavy_stays_, true)) || share_due_ < 1) return false;
  share_due_ -= 1;
  return true;
}

Scheduler::Moved Scheduler::move_out(Client& client) {
  SEPAL_ASSERT(can_move(client), "a client moves that has something to wait for");
  strangers_->remove(client);
  const auto found = clients_.find(client.id());
  SEPAL_ASSERT(found != clients_.end(), "a client that moves is listed");
  const auto node = clients_.extract(found);
  return {.stream = std::move(client.stream), .client = client.session.move_out(), .network = client.network};
}

}  // namespace sepal::session
