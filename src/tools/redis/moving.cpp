#include "tools/redis/moving.hpp"

#include <chrono>

#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr const char* temporary_seconds = "3600";

// The text of an error, or of the first one in a list; empty: there is none.
std::string refusal_in(ReplyView reply) {
  if (reply.is_error()) return std::string(reply.text());
  for (std::size_t i = 0; i < reply.size(); ++i)
    if (reply[i].is_error()) return std::string(reply[i].text());
  return {};
}

}  // namespace

Result<std::string> first_error_of(RedisConnection& server, std::size_t count) {
  std::string text;
  for (; count != 0; --count) {
    const auto reply = server.receive();
    if (!reply) return reply.error();
    if (text.empty() && reply->view().is_error()) text = reply->view().text();
  }
  return text;
}

TemporaryKey::TemporaryKey(RedisConnection& target)
    : target_(target), name_(format("sepal-migrate:%016llx", wide(drawn_seed()))) {}

void TemporaryKey::add_hour() {
  target_.add({"EXPIRE", name_, temporary_seconds});
}

void TemporaryKey::add_question() {
  target_.add({"PTTL", name_});
}

Result<std::string> TemporaryKey::receive_loss() {
  const auto reply = target_.receive();
  if (!reply) return reply.error();
  if (reply->view().is_error()) return std::string(reply->view().text());
  return std::string(reply->view().number() < 0 ? "its copy was removed at the target; run this again" : "");
}

// The deadline comes before the RENAME, which takes it along. A deadline that is past removes the temporary
// key, and RENAME then finds no key.
Result<std::string> TemporaryKey::finish(const RemoteKey& source) {
  add_question();
  if (auto lost = receive_loss(); !lost || !lost->empty()) return lost;
  const auto refusal = rename(source);
  const bool is_past = keyspace::is_past(source.deadline, std::chrono::system_clock::now());
  return refusal && !refusal->empty() && is_past ? std::string("it was past its deadline when it was copied")
                                                 : refusal;
}

// The deadline and the RENAME, in a transaction: otherwise the temporary key could stay for ever, or the
// value have the deadline of the temporary key, if the run is ended or the target refuses one of them.
Result<std::string> TemporaryKey::rename(const RemoteKey& source) {
  const auto ask_both = [&] {
    add_deadline(target_, name_, source.deadline);
    target_.add({"RENAME", name_, source.key});
  };
  target_.add({"MULTI"});
  ask_both();
  target_.add({"EXEC"});
  auto begun = first_error_of(target_, 1);
  auto refusal = first_error_of(target_, 2);
  const auto outcome = target_.receive();
  if (!begun || !outcome) return begun ? outcome.error() : begun.error();
  // Without a transaction both have run by themselves. A command that is not queued ends the transaction.
  if (!begun->empty() || !refusal || !refusal->empty()) return refusal;
  if (!outcome->view().is_error()) return refusal_in(outcome->view());
  // While a filter has a mirror, sepald refuses a transaction with RENAME, and has done nothing.
  ask_both();
  return first_error_of(target_, 2);
}

// A target that refused for lack of memory gets the memory of the half copy back at once.
Result<void> TemporaryKey::remove() {
  const auto removed = answer_of(target_, {"DEL", name_});
  return removed ? Result<void>() : removed.error();
}

}  // namespace sepal::tools
