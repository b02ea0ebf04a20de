#include <sepal/base/assert.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/session/first_requests.hpp>
#include <sepal/session/scheduler.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include "session/client.hpp"
#include "session/spare_buffers.hpp"
#include "session/strangers.hpp"

namespace sepal::session {
namespace {

using Step = Session::Step;

// A reply buffer that has grown beyond this is freed when its replies are sent.
constexpr std::size_t reply_buffer_bytes_max = 1024 * 1024;
static_assert(kept_max <= SpareBuffers::spares_max, "the memory of all kept replies is there for the next");

// Longer replies are sent at once: those of a whole round would take much memory beside what clients hold.
constexpr std::size_t kept_bytes_max = SpareBuffers::spare_bytes_max;

// How much of an outbox a turn sends at a time.
constexpr std::size_t flushed_bytes_max = 1024 * 1024;

// While earlier replies were held, journal space may have been freed, or a pause may have ended, with no
// further wake-up. So the client does not wait for that, but asks again.
Step asked_anew(Step step) {
  return step == Step::later || step == Step::pause ? Step::run_again : step;
}

// Whether bytes that are no reply may leave: all replies so far have left, or are in the outbox. Its next
// step is known.
bool is_between_replies(const Client& client) {
  return client.then != Step::hold && client.then != Step::close && !client.session.is_inside_reply();
}

}  // namespace

Scheduler::Scheduler(const Session::Environment& environment, Observer observer)
    : environment_(environment),
      observer_(std::move(observer)),
      spares_(std::make_unique<SpareBuffers>()),
      strangers_(std::make_unique<Strangers>()) {
  SEPAL_ASSERT(observer_.left && observer_.gone,
               "the worker is told when a client leaves and when it is gone");
}
Scheduler::~Scheduler() = default;

std::uint64_t Scheduler::ById::id_of(const std::unique_ptr<Client>& client) noexcept {
  return client->id();
}

State Scheduler::state_of(const Client& client) {
  return client.state;
}

Client& Scheduler::add(std::unique_ptr<Stream> stream, command::ClientState client, std::uint64_t network) {
  SEPAL_ASSERT(stream != nullptr, "a client without a stream");
  SEPAL_ASSERT(!lingering_.contains(client.id), "a client that lingers has the same id");
  const auto [place, is_new] =
      clients_.insert(std::make_unique<Client>(environment_, std::move(stream), std::move(client), network));
  SEPAL_ASSERT(is_new, "each client has an id of its own");
  if (!(*place)->session.client().authenticated) strangers_->add(**place);
  return **place;
}

// --- a turn ----------------------------------------------------------------------------------------------

void Scheduler::begin_turn(std::uint64_t journal_progress) {
  runs_of_last_turn_ = std::exchange(runs_, 0);
  // Clients that waited for the journal are queued now, so they run at the end of this turn.
  queue_waiting(journal_progress);
}

// Progress is told once, so the first call that sees it must queue all clients that wait for it.
void Scheduler::queue_put_off(std::uint64_t journal_progress) {
  SEPAL_ASSERT(journal_progress > progress_seen_, "the progress of the journal goes back");
  progress_seen_ = journal_progress;
  queue(put_off_, State::put_off);
}

// Queues those of the clients that are not gone, and empties the list.
void Scheduler::queue(std::vector<std::uint64_t>& clients, State their_state) {
  for (const std::uint64_t id : clients) {
    Client* const client = find(id);
    if (client == nullptr) continue;
    SEPAL_ASSERT(client->state == their_state, "a client that waits to be queued does nothing else");
    client->state = State::queued;
    queue_.push_back(id);
  }
  clients.clear();
}

void Scheduler::ready(Client& client, std::uint32_t events) {
  if (client.dropped) return;
  const bool has_unsent = !client.outbox.empty();
  // In every state, the outbox moves first. A broken stream fails in this send, and the client is closed.
  if (has_unsent && (events & (writable | broken)) != 0 && !flush(client)) return close(client);
  switch (client.state) {
    case State::reading:
      // A stream that only takes replies again has brought nothing.
      if (!has_unsent || (events & ~writable) != 0) receive(client);
      break;
    case State::sending:
      if (client.outbox.empty()) proceed(client);
      break;
    case State::lingering: return discard(client);
    // What the peer has sent runs, also if the peer is gone by now. The streams stay watched, which saves
    // system calls: the events are told again each turn, and are ignored here.
    case State::received:
    case State::queued:
    case State::kept: return;
    // proceed() says for which jobs it watches `peer_gone`.
    case State::waiting:
    case State::paused:
      if ((events & (broken | peer_gone)) != 0) close(client);
      return;
    case State::held:
    case State::put_off:
      // A peer that has only ended its own direction still reads: it gets its replies.
      if ((events & broken) != 0) close(client);
      return;
  }
  if (round_.size() >= round_max || round_bytes_ > round_bytes_max) run_round();
}

void Scheduler::end_turn() {
  run_round();
  // Before the queued clients run: their pipelines are long, and the kept replies need not wait for them.
  send_kept();
  turn_.clear();
  turn_.swap(queue_);  // a client that is queued again meanwhile runs in the next turn
  for (const std::uint64_t id : turn_) {
    if (Client* const client = find(id)) run(*client);
  }
  if (environment_.dispatcher.suspended_client() != 0) run_script();
  destroy_dropped();
}

// A script that is suspended runs for a slice in each turn. Other clients of the worker are served between.
void Scheduler::run_script() {
  Client* const client = find(environment_.dispatcher.suspended_client());
  SEPAL_ASSERT(client != nullptr && client->state == State::waiting, "a client stays until its script ends");
  const std::optional<Step> step = client->session.resume_script();
  if (!step) return;
  // The client had to be closed while its script was suspended. close() has put that off until here.
  if (client->abandoned) return close(*client);
  carry_on(*client, *step);
}

void Scheduler::release_replies(std::uint64_t journal_progress) {
  queue_waiting(journal_progress);
  // send_kept() comes last: replies that the journal releases become kept ones.
  release_durable();
  send_kept();
  destroy_dropped();
}

void Scheduler::receive(Client& client) {
  SEPAL_ASSERT(client.state == State::reading, "a client receives while it has requests to run");
  const std::span<char> space = client.session.input_space();
  // The system has no memory for the rest of the request.
  if (space.empty()) return close(client);
  const Stream::Transfer received = client.stream->receive(space);
  switch (received.status) {
    case Stream::Status::again:
      // stop() reads a last time from each client that waits for bytes. From this one nothing has come.
      if (stopping_) finish(client);
      return;
    case Stream::Status::failed: return close(client);
    case Stream::Status::ended:
      client.peer_ended = true;
      // A peer may send its last requests and end its side at once. They still run and are answered.
      client.session.input_ended();
      break;
    case Stream::Status::done: client.session.input_arrived(received.byte_count); break;
  }
  client.state = State::received;
  round_.push_back(&client);
  round_bytes_ += client.session.bytes_unparsed();
}

// The pointers in round_ are good: a client in State::received is not closed before it has run.
void Scheduler::run_round() {
  const bool last_is_large = round_bytes_ > round_bytes_max;
  // With one client there is nothing to overlap or to run together (decisions/0018).
  if (round_.size() > 1) look_ahead();
  for (Client* const client : round_) {
    // The replies of short batches do not wait for a long pipeline.
    if (last_is_large && client == round_.back() && due_) send_kept();
    if (!client->dropped) run(*client);
  }
  round_.clear();
  round_bytes_ = 0;
  if (due_) send_kept();
}

void Scheduler::look_ahead() {
  boost::container::static_vector<Session*, round_max> sessions;
  for (Client* const client : round_) sessions.push_back(&client->session);
  FirstRequests::look_ahead(environment_, sessions);
}

void Scheduler::run(Client& client) {
  SEPAL_ASSERT(client.state == State::received || client.state == State::queued,
               "only these have requests to run");
  const Step step = client.session.run(next_batch_time());
  // The session's own looks at the clock serve here: one more behind each batch made single requests slower.
  const SteadyTime began = client.session.last_run_at();
  const SteadyTime now = client.session.last_run_until();
  if (now - began >= long_batch_min) note_long_batch(now - began);
  const bool grew = client.session.take_grew();
  const std::size_t kept_before = kept_.size();
  carry_on(client, step);  // may destroy the client
  // After carry_on(), which brings the client's figures up to date: the worker looks for the client with
  // most.
  if (grew) observer_.buffers_grew();
  if (kept_.size() > kept_before) {
    if (kept_before == 0) kept_since_ = now;
    // A short batch's replies leave with the round. To keep them longer was tried: the worker had nothing
    // left to do before its clients asked again, and fell asleep (docs/decisions/0017).
    due_ = due_ || now - began < long_run_min;
  }
  if (kept_.size() >= kept_max || (!kept_.empty() && now - kept_since_ >= kept_time_max)) send_kept();
}

void Scheduler::note_long_batch(std::chrono::nanoseconds took) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  long_batches_.add(static_cast<std::uint64_t>(microseconds) * static_cast<std::uint64_t>(microseconds));
}

// How many clients a turn will run is not known when it begins: as many as the last one, or more.
std::chrono::nanoseconds Scheduler::next_batch_time() {
  const std::size_t clients = std::max(++runs_, runs_of_last_turn_);
  const std::chrono::nanoseconds share = turn_time_max / clients;
  return std::clamp<std::chrono::nanoseconds>(share, batch_time_min, batch_time_max);
}

// Keeps the client's replies for the end of the round if nothing but the client waits for them; else sends
// them now. Then `step` follows.
void Scheduler::carry_on(Client& client, Step step) {
  client.then = step;
  if (!client.session.has_output()) return proceed(client);
  take_output(client);
  if ((step == Step::read || step == Step::run_again) && client.replies.size() <= kept_bytes_max) {
    client.state = State::kept;
    kept_.push_back(&client);
    return;
  }
  send_now(client);
}

// The session's replies are in memory that the worker lends to one session at a time. The client takes that
// memory away, so the worker gets a spare buffer for the next session.
void Scheduler::take_output(Client& client) {
  SEPAL_ASSERT(client.replies.empty(), "nothing runs before the replies of the last batch leave");
  client.session.take_output(client.replies);
  spares_->lend(environment_.reply_buffer);
}

// What the stream does not take goes into the outbox: the lent memory goes back to the worker for the other
// clients. The client goes on meanwhile. A client library may send a whole pipeline before it reads the first
// reply, so the worker must not wait for it to read. May destroy the client, as may all members that call it.
void Scheduler::send_now(Client& client) {
  const std::uint64_t unsent_before = client.unsent_counted;
  if (!send(client, client.replies)) return close(client);
  const bool more_wait = client.session.take_grew() || client.unsent_counted > unsent_before;
  give_back(client);
  proceed(client);
  if (more_wait) observer_.buffers_grew();
}

// Gives the bytes to the stream, or puts them into the outbox. False when the stream is broken, or when there
// is no memory for them.
inline bool Scheduler::send(Client& client, std::string_view bytes) {
  // Behind an outbox the bytes must wait, even if the stream would take them: replies keep their order.
  if (client.outbox.empty() && !bytes.empty()) {
    const Stream::Transfer sent = client.stream->send(bytes);
    if (sent.status == Stream::Status::failed) return false;
    bytes.remove_prefix(sent.byte_count);
    client.session.output_sent(sent.byte_count, client.unsent_counted);
  }
  return bytes.empty() || put_into_outbox(client, bytes);
}

bool Scheduler::put_into_outbox(Client& client, std::string_view bytes) {
  const bool fits = memory_reserve::suffices_for([&] { client.outbox.append(bytes); });
  count_unsent(client, 0);
  return fits;
}

// So many bytes were sent just now.
void Scheduler::count_unsent(Client& client, std::size_t sent) {
  const std::uint64_t unsent =
      client.outbox.memory() + (client.pushed == nullptr ? 0 : client.pushed->size());
  environment_.services.buffers.change_replies(client.unsent_counted, unsent);
  client.unsent_counted = unsent;
  client.session.output_sent(sent, unsent);
}

// No reply is under way, so the lines of MONITOR that came meanwhile may leave. False when the stream is
// broken.
bool Scheduler::send_pushed(Client& client) {
  const std::unique_ptr<std::string> lines = std::exchange(client.pushed, nullptr);
  count_unsent(client, 0);
  return send(client, *lines);
}

// Sends as much of the outbox as the stream takes. False when the stream is broken.
bool Scheduler::flush(Client& client) {
  std::size_t flushed = 0;
  while (!client.outbox.empty() && flushed < flushed_bytes_max) {
    const Stream::Transfer sent = client.stream->send(client.outbox.front());
    if (sent.status == Stream::Status::failed) return false;
    if (sent.byte_count == 0) break;
    client.outbox.sent(sent.byte_count);
    flushed += sent.byte_count;
  }
  count_unsent(client, flushed);
  // Ends the watch for `writable` once the outbox is empty. Without this, each turn would hear of it.
  watch(client, client.wanted);
  return true;
}

// Gives the memory of sent replies back. The worker's reply buffer gets the larger block, up to
// reply_buffer_bytes_max; the spares get the other one.
void Scheduler::give_back(Client& client) {
  std::string& buffer = environment_.reply_buffer;
  const std::size_t capacity = client.replies.capacity();
  if (capacity > buffer.capacity() && capacity <= reply_buffer_bytes_max) client.replies.swap(buffer);
  spares_->take_back(client.replies);
}

void Scheduler::send_kept() {
  for (Client* const client : kept_) {
    if (client == nullptr) continue;
    SEPAL_ASSERT(client->state == State::kept, "a client whose replies are kept does nothing else");
    send_now(*client);
  }
  kept_.clear();
  due_ = false;
}

// The replies have left, or are in the outbox: takes the step that the last batch asked for.
void Scheduler::proceed(Client& client) {
  SEPAL_ASSERT(client.replies.empty(), "a client goes on before its replies leave");
  if (client.pushed != nullptr && is_between_replies(client) && !send_pushed(client)) return close(client);
  switch (client.then) {
    case Step::read:
      if (stopping_) return finish(client);
      client.state = State::reading;
      return watch(client, readable);
    case Step::drain:
      // The rest of a long reply is in memory already, so it must not go into the outbox as well.
      if (!client.outbox.empty()) {
        client.state = State::sending;
        return watch(client, 0);
      }
      [[fallthrough]];
    case Step::run_again:
      client.state = State::queued;
      queue_.push_back(client.id());
      return;
    case Step::wait:
      // The client may wait for the stop itself.
      if (stopping_) return end_waiting(client);
      client.state = State::waiting;
      // A job for this client alone must end when the client goes, so its end must be noticed. A save goes on
      // without the client that asked for it.
      return watch(client, client.session.client().lifeline.tied() ? peer_gone : 0);
    case Step::hold: return hold(client);
    case Step::later:
      client.state = State::put_off;
      put_off_.push_back(client.id());
      return watch(client, 0);
    case Step::pause:
      if (stopping_) return end_waiting(client);
      client.state = State::paused;
      paused_.emplace(client.session.paused_until(), client.id());
      // A client must not keep its place for the length of a pause when it has given up, and tries again by
      // another connection. Nor must one that guesses passwords and leaves.
      return watch(client, peer_gone);
    case Step::close: return finish(client);
  }
}

// --- the journal -----------------------------------------------------------------------------------------

// held_ is sorted by position. Positions do not always grow from client to client: one that ran early in a
// round may have to wait for a later position than one that ran after it.
void Scheduler::hold(Client& client) {
  SEPAL_ASSERT(client.session.held_until() != 0, "a client waits for no position of the journal");
  client.state = State::held;
  const Held held{.position = client.session.held_until(), .id = client.id()};
  held_.insert(std::ranges::upper_bound(held_, held.position, {}, &Held::position), held);
  watch(client, 0);
}

void Scheduler::release_durable() {
  if (held_.empty()) return;
  const std::uint64_t durable = environment_.services.journal.durable_position();
  while (!held_.empty() && held_.front().position <= durable) {
    Client* const client = find(held_.front().id);
    held_.pop_front();
    if (client == nullptr) continue;
    // The client is off the list before it goes on: its next batch may hold replies again, at a later
    // position.
    SEPAL_ASSERT(client->state == State::held, "a client whose replies are held does nothing else");
    carry_on(*client, asked_anew(client->session.release()));
  }
}

// --- between turns ---------------------------------------------------------------------------------------

// A client for which the pause is not over waits again, for the end that it is told then.
void Scheduler::end_pause(SteadyTime now) {
  std::vector<std::uint64_t> due;
  while (!paused_.empty() && paused_.begin()->first <= now) {
    due.push_back(paused_.begin()->second);
    paused_.erase(paused_.begin());
  }
  queue(due, State::paused);
}

void Scheduler::answer(std::uint64_t id, const std::function<void(resp::Reply&)>& append) {
  Client* const client = find(id);
  if (client == nullptr || !client->session.answer(append)) return;
  if (client->state == State::waiting) return carry_on(*client, Step::run_again);
  // Earlier replies are still being sent, or held. The answer must not overtake them: it leaves with the next
  // batch.
  client->then = Step::run_again;
}

// Called between turns, so no replies are kept. A client that is closed when its replies are sent gets no
// more.
void Scheduler::push(std::uint64_t id, std::string_view bytes) {
  Client* const client = find(id);
  if (client == nullptr || !client->session.is_monitor()) return;
  // CLIENT REPLY OFF and SKIP hold for these lines as well.
  if (client->session.client().replies != command::Replies::all) return;
  if (client->state == State::sending && client->then == Step::close) return;
  if (client->state == State::held || client->state == State::kept || client->session.is_inside_reply()) {
    const bool fits = memory_reserve::suffices_for([&] {
      if (client->pushed == nullptr) client->pushed = std::make_unique<std::string>();
      *client->pushed += bytes;
    });
    count_unsent(*client, 0);
    if (!fits) return close(*client);
  } else {
    const std::uint64_t unsent_before = client->unsent_counted;
    if (!send(*client, bytes)) return close(*client);
    watch(*client, client->wanted);
    if (client->unsent_counted <= unsent_before) return;
  }
  observer_.buffers_grew();
}

void Scheduler::collect(std::vector<command::ClientState*>& clients) {
  for (const auto& client : clients_) clients.push_back(&client->session.client());
}

// Does not find lingering clients: nothing more is sent to them, and kill() does not cut off their last
// reply.
Client* Scheduler::find(std::uint64_t id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->get();
}

void Scheduler::watch(Client& client, std::uint32_t events) {
  client.wanted = events;
  if (!client.outbox.empty()) events |= writable;
  if (events == client.watched) return;
  client.watched = events;
  client.stream->watch(events);
}

}  // namespace sepal::session
