// The connections of a worker whose TLS handshake is under way. They are no clients yet: the scheduler does
// not know them, and they take no place below maxclients.
//
// Any stranger may begin a handshake. So their number has a bound, and each has a deadline. A connection
// beyond the bound takes the place of another one (base/displace.hpp). OpenSSL's memory for a connection is
// made when its first bytes have come. A step of a handshake takes as long as hundreds of requests, so only a
// few steps are taken before the worker's clients have their turn.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/tls/connection.hpp>
#include <sepal/tls/context.hpp>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/accepted.hpp"
#include "server/client_counts.hpp"
#include "server/readiness.hpp"
#include "server/refusal.hpp"

namespace sepal::server {

// What OpenSSL takes for a handshake that is under way, about.
inline constexpr std::uint64_t handshake_bytes = 48 * 1024;
// How long a handshake may take where login_timeout sets no time.
inline constexpr std::chrono::seconds handshake_time_max{10};
// The least handshakes that a worker keeps, however many workers there are.
inline constexpr std::uint64_t handshakes_least = 16;

// How many handshakes one of these workers keeps. Together they take no more memory than other strangers may.
[[nodiscard]] constexpr std::uint64_t handshakes_max_of(std::uint64_t worker_count) {
  return std::max(command::strangers_bytes_max / handshake_bytes / worker_count, handshakes_least);
}

struct HandshakeOptions {
  const tls::Current* tls = nullptr;  // null: there is no TLS port
  std::uint64_t count_max = 0;
};

// What a handshake has brought.
struct Greeted {
  std::unique_ptr<tls::Connection> connection;  // null: the client speaks no TLS
  // The name in the client's certificate, where it names the user.
  std::optional<std::string> user_name;
};

// Confined to its worker.
class Handshakes {
 public:
  // Descriptors that it has open, besides those of the connections.
  static constexpr std::uint64_t descriptors = 1;

  struct Observer {
    std::function<void(Accepted, Greeted)> done;  // the handshake has succeeded
    std::function<void()> gone;                   // a connection that had no success is closed
  };

  // `scrap` is overwritten. All references outlive this object.
  Handshakes(boost::asio::io_context& context, const HandshakeOptions& options, HandshakeTallies& tallies,
             std::span<char> scrap, Observer observer);

  // Errors: io.
  Result<void> open() { return readiness_.open(); }
  void begin(Accepted accepted);
  // Closes connections whose handshake began longer than `patience` ago; 0: than handshake_time_max.
  void sweep(SteadyTime now, std::chrono::seconds patience);
  void close_all();

 private:
  struct Pending {
    Accepted accepted;
    SteadyTime began;
    std::unique_ptr<tls::Connection> connection{};  // null until the client has sent something
    tls::UserField user_field = tls::UserField::off;
    std::uint32_t watched = session::readable;
    std::list<Pending>::iterator place{};
  };

  void await();
  void take_turn();
  void go_on(Pending& pending);
  void finish(Pending& pending);
  void fail(Pending& pending);
  void watch(Pending& pending, std::uint32_t events);
  void make_room();
  void drop(Pending& pending, std::atomic<std::uint64_t>& tally, const Refusal& refusal);
  void close(Pending& pending);

  HandshakeOptions options_;
  HandshakeTallies& tallies_;
  std::span<char> scrap_;
  Observer observer_;
  Readiness readiness_;
  // A list, because events name an entry by its address.
  std::list<Pending> pending_;  // the oldest first
  bool awaiting_ = false;
  RefusalLog refusals_;
};

}  // namespace sepal::server
