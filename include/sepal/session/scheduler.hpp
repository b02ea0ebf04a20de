// Decides, for the clients of one worker, whose requests run next and when replies leave. It knows no socket,
// no thread and no timer: the worker tells it what has happened (a stream is ready, the journal has made
// progress, time has passed), and it moves bytes through each client's Stream.
//
// A client is always in exactly one State; docs/waiting.md draws the ways between them.
//
// A turn serves all clients that are ready in rounds. A round receives from some clients, looks at what they
// ask first, runs their batches, and then sends their replies:
//
//     receive receive receive .. | look ahead | run run run .. | send send send ..
//
// So a request finds its memory in the cache, and the kernel's send path, which empties the caches, does not
// come between two requests. Sending also wakes a client that sleeps, which in a virtual machine costs ten
// microseconds or more: one wake-up for a whole batch is cheaper than one for each reply.
//
// A client whose stream does not take its replies is served on, and its replies wait in its outbox: many
// libraries send a whole pipeline before they read the first reply. The replies of all clients that wait are
// bounded (RuntimeOptions::clients_memory_max).
//
// The last reply must arrive: closing a socket that holds unread bytes resets the connection, and a reset may
// overtake the reply. So the scheduler ends the sending side, reads on, throws away what it reads, and lets
// the client go when the peer has closed or after linger_max. At a stop, when all clients linger at once, it
// is enough that the peer's system has acknowledged everything.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/run/client_state.hpp>
#include <sepal/metrics/counters.hpp>
#include <sepal/resp/reply.hpp>
#include <sepal/session/session.hpp>
#include <sepal/session/stream.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace sepal::session {

inline constexpr std::chrono::seconds linger_max{1};
// A round ends once this much is unparsed; the last client may exceed it.
inline constexpr std::size_t round_bytes_max = 4096;
// A turn is to take no longer than this: the more clients run in it, the shorter is the batch of each, down
// to batch_time_min.
inline constexpr std::chrono::microseconds turn_time_max{1000};
inline constexpr std::chrono::microseconds batch_time_min{50};
static_assert(batch_time_min <= turn_time_max && batch_time_min <= batch_time_max);
// Replies of a batch that took long_run_min or more may be kept beyond their round, until the oldest was kept
// for kept_time_max (plus the batch then running) or kept_max clients' replies are kept.
inline constexpr std::chrono::microseconds long_run_min{10};
inline constexpr std::chrono::microseconds kept_time_max{250};
inline constexpr std::size_t kept_max = 16;
static_assert(kept_max > 0 && long_run_min < kept_time_max);
// Clients notice that they wait for another client's batch that took so long.
inline constexpr std::chrono::microseconds long_batch_min{100};

enum class State : std::uint8_t {
  reading,    // waits for bytes
  received,   // has received: its batch runs in this round
  queued,     // has more to run, after the other clients' turn
  kept,       // its replies leave soon, together with those of other clients
  sending,    // its stream has to take all replies before the client ends, or the rest of a long reply comes
  waiting,    // a command answers later, or a script is suspended
  held,       // its replies wait until the journal is durable up to Session::held_until()
  put_off,    // its next request waits for room in the journal
  paused,     // its next request waits for the end of a pause, or its failed login for the answer
  lingering,  // its last reply is sent, and it counts as a client no more
};

// How long clients may take; 0: for ever.
struct Patience {
  std::chrono::seconds idle{0};   // without a request
  std::chrono::seconds login{0};  // from the connection on, for a client that must log in and has not
};

class Client;
class SpareBuffers;
class Strangers;

// Confined to its worker, but for collect().
class Scheduler {
 public:
  // What the worker has to know. Called from within the members below; `gone` is the last call about a
  // client.
  struct Observer {
    std::function<void()> left;  // the scheduler no longer counts this client; another may connect
    std::function<void()> gone;  // its stream is destroyed
    std::function<void()> buffers_grew = [] {};  // more bytes wait than before. Outside the gate
  };

  // `environment` outlives the scheduler.
  Scheduler(const Session::Environment& environment, Observer observer);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Inside the gate. A new client, whose id no other has, in State::reading. Watch its stream for `readable`
  // and give the events to ready(). It lives until Observer::gone. `network`: see base/displace.hpp.
  Client& add(std::unique_ptr<Stream> stream, command::ClientState client, std::uint64_t network = 0);

  // --- a turn: begin_turn(), ready() for each client that is, end_turn(), release_replies() ---

  // `journal_progress` grows whenever the journal is durable up to a further position, has room, or begins to
  // refuse.
  void begin_turn(std::uint64_t journal_progress);
  // During a turn only clients that ready() was called for may be destroyed. So the worker may keep pointers
  // to its ready clients, and call ready() once for each.
  void ready(Client& client, std::uint32_t events);
  // Runs what the round holds, then one batch of each client that was queued.
  void end_turn();

  // --- within a turn, before ready(): clients move to another worker ---

  // From now on, may_move() names this share of the clients of which it is asked, each once: above 0, at most
  // 1; 1: all, each time. 0: none.
  void move_share(double share);
  // Inside the gate. Whether the client, whose event has come, is to move and can: then give it to move_out()
  // in place of ready().
  [[nodiscard]] bool may_move(Client& client);
  // What add() of the other worker's scheduler takes.
  struct Moved {
    std::unique_ptr<Stream> stream;
    command::ClientState client;
    std::uint64_t network = 0;
  };
  // Inside the gate. The client is destroyed; the Observer hears nothing.
  Moved move_out(Client& client);
  // The squares of the times that long batches took, in microseconds, together: half of what it grows in some
  // time, divided by that time, is how long a request that comes then waits for them on average. Any thread.
  [[nodiscard]] std::uint64_t long_batches() const { return long_batches_.get(); }
  // Before the worker waits, also when it had no turn: sends what is kept, and what the journal lets go.
  void release_replies(std::uint64_t journal_progress);

  // Clients are queued, or a script is suspended: another turn is to follow without waiting.
  [[nodiscard]] bool has_more() const {
    return !queue_.empty() || environment_.dispatcher.suspended_client() != 0;
  }
  // True: the worker must call release_replies() when the journal progresses. Call this first, then read the
  // progress.
  [[nodiscard]] bool awaits_journal() const { return !held_.empty() || !put_off_.empty(); }

  // --- at any time, within a turn or in Observer::buffers_grew, followed by release_replies() ---

  // As kill(), and gives the client's memory back at once; the client itself is destroyed later. False: it is
  // no client of this worker.
  bool drop(std::uint64_t id);

  // --- between turns, followed by release_replies() ---

  [[nodiscard]] bool has_paused() const { return !paused_.empty(); }
  // When to call end_pause(); nothing: no client is paused.
  [[nodiscard]] std::optional<SteadyTime> paused_until() const {
    return has_paused() ? std::optional(paused_.begin()->first) : std::nullopt;
  }
  // Queues the clients whose time has come. A pause that has ended before its time: SteadyTime::max().
  void end_pause(SteadyTime now);
  // Answers a client that waits. An id that is not there is ignored, here and below.
  void answer(std::uint64_t id, const std::function<void(resp::Reply&)>& append);
  // For MONITOR. The bytes go behind the client's replies; a client that is no monitor does not get them.
  void push(std::uint64_t id, std::string_view bytes);
  // Closes it without a further reply.
  void kill(std::uint64_t id);
  // Closes a client that has not logged in, so that a new one has its place; `random` chooses which. Returns
  // its address; nothing: all have logged in. Call it only while clients must.
  std::optional<std::string> displace_stranger(std::uint64_t random);
  // Closes clients whose time is over, and lingering ones. Notes the most that a client has unparsed and
  // unsent.
  void sweep(SteadyTime now, const Patience& patience);
  // Begins the end of all clients. The scheduler reads a last time from each client in State::reading, runs
  // what has arrived, sends the replies and closes. A client in State::waiting is closed at once: what it
  // waits for may be the stop; so is a client in State::paused, whose pause may be long. A client in another
  // state goes on, and is closed when it would read again.
  void stop();
  // Closes all that are left. Returns how many were clients still.
  std::size_t cut_off();

  // No client is left, and none lingers.
  [[nodiscard]] bool empty() const { return clients_.empty() && lingering_.empty() && dropped_.empty(); }

  // With the gate closed, from any thread. Clients that linger are none.
  void collect(std::vector<command::ClientState*>& clients);

  [[nodiscard]] static State state_of(const Client& client);

 private:
  // Clients by their ids: hashes and compares them. The id stands in the client, not beside it: there are
  // many clients.
  struct ById {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    static std::uint64_t id_of(std::uint64_t id) noexcept { return id; }
    static std::uint64_t id_of(const std::unique_ptr<Client>& client) noexcept;
    template <class One>
    std::size_t operator()(const One& one) const noexcept {
      return std::hash<std::uint64_t>()(id_of(one));
    }
    template <class One, class Other>
    bool operator()(const One& one, const Other& other) const noexcept {
      return id_of(one) == id_of(other);
    }
  };
  using Clients = std::unordered_set<std::unique_ptr<Client>, ById, ById>;
  struct Held {
    std::uint64_t position;
    std::uint64_t id;
  };

  Client* find(std::uint64_t id);
  void receive(Client& client);
  void run_round();
  void look_ahead();
  void run(Client& client);
  std::chrono::nanoseconds next_batch_time();
  void note_long_batch(std::chrono::nanoseconds took);
  [[nodiscard]] static bool can_move(const Client& client);
  void queue_waiting(std::uint64_t journal_progress) {
    if (journal_progress != progress_seen_) queue_put_off(journal_progress);
  }
  void queue_put_off(std::uint64_t journal_progress);
  void queue(std::vector<std::uint64_t>& clients, State their_state);
  void carry_on(Client& client, Session::Step step);
  void take_output(Client& client);
  void send_now(Client& client);
  bool send(Client& client, std::string_view bytes);
  [[nodiscard]] bool put_into_outbox(Client& client, std::string_view bytes);
  void count_unsent(Client& client, std::size_t sent);
  bool send_pushed(Client& client);
  bool flush(Client& client);
  void give_back(Client& client);
  void send_kept();
  void proceed(Client& client);
  void hold(Client& client);
  void release_durable();
  void end_waiting(Client& client);
  void run_script();
  void finish(Client& client);
  void discard(Client& client);
  void close(Client& client);
  void destroy_dropped();
  Clients::node_type unlist(Client& client);
  static void watch(Client& client, std::uint32_t events);
  [[nodiscard]] bool is_over(const Client& client, SteadyTime now, const Patience& patience) const;
  [[nodiscard]] static bool has_not_logged_in(const Client& client, SteadyTime now, const Patience& patience);

  const Session::Environment& environment_;
  Observer observer_;
  std::unique_ptr<SpareBuffers> spares_;
  Clients clients_;  // changed inside the worker's side of the gate: collect() reads it
  Clients lingering_;
  std::unique_ptr<Strangers> strangers_;
  // Destroyed between turns: a turn may still have their addresses.
  std::vector<std::unique_ptr<Client>> dropped_;
  std::vector<Client*> round_;   // State::received
  std::size_t round_bytes_ = 0;  // that they have not parsed
  std::vector<Client*> kept_;    // in State::kept; null: it is listed no more
  // Ids from here on: a client may be gone before its turn comes.
  std::vector<std::uint64_t> queue_;
  std::vector<std::uint64_t> turn_;  // the queue of the running turn
  SteadyTime kept_since_{};          // when the oldest of them was kept
  bool due_ = false;                 // one of them is of a short batch: all leave with this round
  std::deque<Held> held_;            // by position
  std::vector<std::uint64_t> put_off_;
  std::multimap<SteadyTime, std::uint64_t> paused_;  // by the end that they were told
  std::uint64_t progress_seen_ = 0;
  std::size_t runs_ = 0;  // in this turn
  std::size_t runs_of_last_turn_ = 0;
  metrics::Counter long_batches_;
  // What move_share() asked for, how much of a client that has come to since, and the number of the call.
  double share_ = 0;
  double share_due_ = 0;
  std::uint32_t share_number_ = 0;
  std::uint64_t long_batches_before_ = 0;  // at that call
  bool heavy_stays_ = false;               // a client with long batches was asked about, and stays
  bool stopping_ = false;
};

}  // namespace sepal::session
