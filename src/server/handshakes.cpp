#include "server/handshakes.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/displace.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/base/random.hpp>

#include <iterator>
#include <utility>
#include <vector>

namespace sepal::server {
namespace {

// The most steps that are taken before the worker's clients have their turn.
constexpr std::size_t steps_per_turn_max = 2;

constexpr Refusal too_slow{.reply = {},
                           .reason = "the TLS handshake took longer than login_timeout",
                           .advice = "none, unless the client is one of yours: it may speak no TLS"};
constexpr Refusal displaced{.reply = {},
                            .reason = "too many TLS handshakes are under way: newer ones took the place",
                            .advice = "keep strangers away from the port"};

std::string_view advice_for(tls::Failure failure) {
  switch (failure) {
    case tls::Failure::certificate:
      return "give the client a certificate that tls_ca_cert_file has signed, or see tls_auth_clients";
    case tls::Failure::refused_by_peer:
      return "give the client the CA of tls_cert_file, and use a name that is in this certificate";
    case tls::Failure::protocol: return "let the client speak TLS 1.2 or later at tls_port";
    case tls::Failure::closed: break;
  }
  return "none, unless the client is one of yours: its own log may say more";
}

std::atomic<std::uint64_t>& tally_of(HandshakeTallies& tallies, tls::Failure failure) {
  switch (failure) {
    case tls::Failure::certificate: return tallies.certificate_refused;
    case tls::Failure::refused_by_peer: return tallies.refused_by_client;
    case tls::Failure::protocol: return tallies.not_tls;
    case tls::Failure::closed: break;
  }
  return tallies.closed;
}

}  // namespace

Handshakes::Handshakes(boost::asio::io_context& context, const HandshakeOptions& options,
                       HandshakeTallies& tallies, std::span<char> scrap, Observer observer)
    : options_(options),
      tallies_(tallies),
      scrap_(scrap),
      observer_(std::move(observer)),
      readiness_(context) {
  SEPAL_ASSERT(options_.tls != nullptr && options_.count_max > 0, "handshakes without a certificate");
}

void Handshakes::begin(Accepted accepted) {
  // This comes before the new entry is listed, so that make_room() does not choose it.
  make_room();
  pending_.push_back({.accepted = std::move(accepted), .began = std::chrono::steady_clock::now()});
  Pending& pending = pending_.back();
  pending.place = std::prev(pending_.end());
  tallies_.under_way.fetch_add(1, std::memory_order_relaxed);
  if (const auto watched = readiness_.add(pending.accepted.descriptor.number(), &pending, pending.watched);
      !watched) {
    refusals_.note({.reply = {}, .reason = watched.error().detail, .advice = "none"},
                   pending.accepted.address);
    return close(pending);
  }
  await();
}

void Handshakes::sweep(SteadyTime now, std::chrono::seconds patience) {
  // login_timeout 0 lets a client wait for ever. A handshake holds a place and OpenSSL's memory, so it has a
  // bound all the same. The oldest come first: the loop ends at the first that still has time.
  if (patience.count() == 0) patience = handshake_time_max;
  while (!pending_.empty() && now - pending_.front().began > patience)
    drop(pending_.front(), tallies_.too_slow, too_slow);
}

void Handshakes::close_all() {
  while (!pending_.empty()) close(pending_.front());
}

void Handshakes::await() {
  // Readiness::wait() allows one wait at a time.
  if (pending_.empty() || std::exchange(awaiting_, true)) return;
  readiness_.wait([this](const boost::system::error_code& error) {
    awaiting_ = false;
    if (!error) take_turn();
  });
}

// Events name connections by pointer. That is safe: a step ends its own connection only. What is left out
// here is told again, because the set is level-triggered.
void Handshakes::take_turn() {
  std::size_t steps = 0;
  for (const Readiness::Event& event : readiness_.take()) {
    if (++steps > steps_per_turn_max) break;
    go_on(*static_cast<Pending*>(event.owner));
  }
  await();
}

void Handshakes::go_on(Pending& pending) {
  if (pending.connection == nullptr) {
    // The context of this moment. A certificate that is read anew later is for handshakes that begin later.
    const std::shared_ptr<const tls::Context> context = options_.tls->get();
    SEPAL_ASSERT(context != nullptr, "the TLS port is open before there is a certificate");
    // OpenSSL has memory of its own, beside the reserve.
    const bool fits = memory_reserve::suffices_for([&] {
      pending.connection = std::make_unique<tls::Connection>(*context, pending.accepted.descriptor.number());
    });
    if (!fits) return drop(pending, tallies_.closed, no_memory);
    pending.user_field = context->user_field();
  }
  switch (pending.connection->handshake()) {
    case tls::Connection::Status::wants_read: return watch(pending, session::readable);
    case tls::Connection::Status::wants_write: return watch(pending, session::writable);
    case tls::Connection::Status::done: return finish(pending);
    case tls::Connection::Status::ended:
    case tls::Connection::Status::failed: return fail(pending);
  }
}

void Handshakes::watch(Pending& pending, std::uint32_t events) {
  if (std::exchange(pending.watched, events) == events) return;
  readiness_.change(pending.accepted.descriptor.number(), &pending, events);
}

void Handshakes::finish(Pending& pending) {
  Greeted greeted{.connection = std::move(pending.connection), .user_name = {}};
  if (pending.user_field == tls::UserField::common_name)
    greeted.user_name = greeted.connection->common_name();
  Accepted accepted = std::move(pending.accepted);
  // The descriptor stays open and goes into the worker's own set. So no close takes it out of this one.
  readiness_.remove(accepted.descriptor.number());
  tallies_.under_way.fetch_sub(1, std::memory_order_relaxed);
  pending_.erase(pending.place);
  observer_.done(std::move(accepted), std::move(greeted));
}

// OpenSSL has told the client why, where TLS has words for it.
void Handshakes::fail(Pending& pending) {
  const tls::Failure failure = pending.connection->failure();
  const std::string reason = "TLS handshake: " + pending.connection->reason();
  drop(pending, tally_of(tallies_, failure), {.reply = {}, .reason = reason, .advice = advice_for(failure)});
}

void Handshakes::make_room() {
  if (pending_.size() < options_.count_max) return;
  std::vector<std::uint64_t> networks;
  networks.reserve(pending_.size());
  for (const Pending& pending : pending_) networks.push_back(pending.accepted.network);
  const auto index = static_cast<std::ptrdiff_t>(displaced_index(networks, random_number()));
  drop(*std::next(pending_.begin(), index), tallies_.displaced, displaced);
}

void Handshakes::drop(Pending& pending, std::atomic<std::uint64_t>& tally, const Refusal& refusal) {
  tally.fetch_add(1, std::memory_order_relaxed);
  refusals_.note(refusal, pending.accepted.address);
  // OpenSSL may just have sent an alert. A reset by the close would overtake it.
  part_from(pending.accepted.descriptor.number(), scrap_);
  close(pending);
}

void Handshakes::close(Pending& pending) {
  tallies_.under_way.fetch_sub(1, std::memory_order_relaxed);
  pending_.erase(pending.place);
  observer_.gone();  // after the descriptor is closed
}

}  // namespace sepal::server
