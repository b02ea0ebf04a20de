#include "string_access.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/error_texts.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adopting.hpp"
#include "lookup.hpp"
#include "mirror_state.hpp"
#include "refuse.hpp"

namespace sepal::command {
namespace {

// Puts changes of more than one record into one group. EXEC and scripts have begun one already.
class StringGroup {
 public:
  StringGroup(const Context& context, std::uint64_t byte_count) {
    if (byte_count > keyspace::written_bytes_max / 2 && !context.moment.in_transaction)
      log_ = context.record.log;
    if (log_ != nullptr) log_->begin_group();
  }
  ~StringGroup() {
    if (log_ != nullptr) log_->end_group();
  }
  StringGroup(const StringGroup&) = delete;
  StringGroup& operator=(const StringGroup&) = delete;

 private:
  keyspace::WorkerLog* log_ = nullptr;
};

FoundString checked(Context& context, const filter::Filter* value) {
  if (value == nullptr || value->is_string()) return {.value = value, .is_filter = false};
  context.reply.error(text::wrong_type);
  return {.value = nullptr, .is_filter = true};
}

std::string_view string_refusal(Errc code) {
  switch (code) {
    case Errc::too_large:
      return text::string_too_long;
    case Errc::memory_limit:
    case Errc::out_of_memory:
      return text::over_memory;
    default:
      return text_of(code);
  }
}

Next adopt_long(Context& context, NewString string) {
  if (context.moment.in_transaction) return refuse(context, text::long_string_in_transaction);
  Adoption adoption{.what = "set",
                    .database = context.client.database,
                    .key = std::string(string.key),
                    .deadline = string.deadline,
                    .replace = true,
                    .make = {},
                    .answer = {}};
  adoption.make = [held = std::make_shared<std::string>(string.bytes)](
                      const Making& making) -> Result<keyspace::FilterPtr> {
    if (auto room = making.hold(held->size()); !room) return room.error();
    return filter::BitString::of(*held, making.limits);
  };
  adoption.answer = [answer = std::move(string.answer)](resp::Reply& reply, const Result<void>& outcome) {
    if (outcome) return answer(reply);
    reply.error(outcome.error().code == Errc::memory_limit ? std::string(text::over_memory)
                                                           : reason_text(outcome.error()));
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

}  // namespace

FoundString find_string(Context& context, std::string_view key) {
  return checked(context, find(context, key));
}

FoundString find_string_counted(Context& context, std::string_view key) {
  return checked(context, find_counted(context, key));
}

bool refuse_length(Context& context, std::uint64_t offset, std::uint64_t byte_count) {
  if (offset <= filter::string_bytes_max && byte_count <= filter::string_bytes_max - offset) return false;
  context.reply.error(text::string_too_long);
  return true;
}

bool write_string(Context& context, std::string_view key, std::uint64_t offset,
                  std::span<const std::byte> bytes) {
  SEPAL_ASSERT(context.alone, "a string is written while other workers may set its bits");
  const StringGroup group(context, bytes.size());
  const auto written =
      context.changes.write({.database = context.client.database, .key = key}, offset, bytes);
  if (!written) context.reply.error(string_refusal(written.error().code));
  return written.ok();
}

Next put_string(Context& context, NewString string) {
  if (!context.alone) return Next::need_alone;
  const keyspace::DatabaseKey key{.database = context.client.database, .key = string.key};
  if (is_target(context.services.keyspace, key, context.now)) return refuse(context, text::target_of_mirror);
  if (keyspace::is_past(string.deadline, context.now)) {
    context.changes.remove(key);
    string.answer(context.reply);
    return Next::done;
  }
  if (string.bytes.size() > string_at_once_max) return adopt_long(context, std::move(string));
  auto made = filter::BitString::of(string.bytes, context.services.keyspace.machine_limits());
  if (!made) return refuse(context, string_refusal(made.error().code));
  const StringGroup group(context, string.bytes.size());
  const auto put = context.changes.put_string(key, std::move(*made), string.deadline);
  if (!put) return refuse(context, string_refusal(put.error().code));
  string.answer(context.reply);
  return Next::done;
}

// A long string is appended piece by piece, so that the reply does not hold up other clients. Within EXEC and
// scripts other replies follow it, so there it is appended at once.
void append_string(Context& context, const FoundString& found) {
  const std::uint64_t length = found.length();
  if (length <= string_at_once_max || context.moment.in_transaction)
    return context.reply.bulk(found.string().text());
  std::vector<std::string> pieces;
  for (std::uint64_t offset = 0; offset < length; offset += string_at_once_max)
    pieces.push_back(found.string().text(offset, string_at_once_max));
  context.reply.bulk_later(std::move(pieces));
}

}  // namespace sepal::command
