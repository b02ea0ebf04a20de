#include "command/strings/string_access.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/transaction.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/writers/string_writer.hpp>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"

namespace sepal::command {
namespace {

// Whether more than one record may be made of so many bytes.
bool needs_group(std::uint64_t byte_count) {
  return byte_count > keyspace::written_bytes_max / 2;
}

// The texts of Redis for strings. Filters have texts of their own for the same codes (error_texts.cpp).
std::string_view string_refusal(Errc code) {
  switch (code) {
    case Errc::too_large: return text::string_too_long;
    case Errc::memory_limit: return text::over_memory;
    case Errc::out_of_memory: return text::no_memory;
    default: return text_of(code);
  }
}

class StringBytes final : public resp::Source {
 public:
  StringBytes(keyspace::Keyspace& keyspace, strings::String& string, std::uint64_t offset)
      : keyspace_(keyspace), held_(&string), offset_(offset) {}
  // If the string has lost its key, its memory goes back to the system. For a long one that takes too long
  // here.
  ~StringBytes() override {
    if (held_->use_count() == 1) keyspace_.dispose(std::move(held_));
  }
  StringBytes(const StringBytes&) = delete;
  StringBytes& operator=(const StringBytes&) = delete;

  void read(std::uint64_t offset, std::span<char> to) const override {
    held_->read(offset_ + offset, std::as_writable_bytes(to));
  }

 private:
  keyspace::Keyspace& keyspace_;
  strings::StringPtr held_;
  std::uint64_t offset_;
};

std::vector<resp::Piece> piece_of(std::unique_ptr<const resp::Source> source, std::uint64_t byte_count) {
  std::vector<resp::Piece> pieces(1);
  pieces[0] = {.source = std::move(source), .source_bytes = byte_count};
  return pieces;
}

// What is under a key until a job puts another string there.
struct Replaced {
  keyspace::Keyspace& keyspace;
  strings::StringPtr string{};  // null: no string
  bool is_other = false;        // the job gives up: WRONGTYPE

  void look(value::Value* there) {
    string = value::as<strings::String>(there);
    is_other = there != nullptr && string == nullptr;
  }
  void answer(resp::Reply& reply) {
    if (is_other) return answer_other_kind(reply);
    if (string == nullptr) return reply.null();
    if (string->length() <= string_at_once_max) return reply.bulk(string->text());
    reply.bulk_later(piece_of(std::make_unique<StringBytes>(keyspace, *string, 0), string->length()));
    string = nullptr;
  }
};

// How the client is told what the job did. `replaced` is null unless the client asked for the old string.
std::function<void(resp::Reply&, const Result<void>&)> answer_of_job(
    NewString string, const std::shared_ptr<Replaced>& replaced) {
  return [answer = std::move(string.answer), otherwise = std::move(string.answer_otherwise), replaced](
             resp::Reply& reply, const Result<void>& outcome) {
    if (outcome) return replaced ? replaced->answer(reply) : answer(reply);
    // After these two the condition is false now. So the client is answered as if its request had come after
    // the change.
    const Errc code = outcome.error().code;
    if (code == Errc::key_exists || code == Errc::no_such_key) {
      if (replaced) return replaced->answer(reply);
      if (otherwise) return otherwise(reply);
    }
    reply.error(code == Errc::memory_limit ? std::string(text::over_memory) : reason_text(outcome.error()));
  };
}

// Has a job put the string. The job outlives the request's words and the handler, so everything that it uses
// is a copy: the string was copied before the gate was closed (is_ready_to_put()). Other clients run before
// the job ends: it looks again, with the gate closed, whether the condition is still true (`replace` for
// free, `still_wanted` for taken).
Next adopt_long(Context& context, NewString string) {
  if (context.mode.in_transaction) return refuse(context, text::long_string_in_transaction);
  SEPAL_ASSERT(context.partial != nullptr && context.partial->bytes.size() == string.bytes.size(),
               "a job puts a string that was not copied for it");
  Adoption adoption{.what = "set",
                    .database = context.client.database,
                    .key = std::string(string.key),
                    .deadline = string.deadline,
                    .replace = string.condition != PutCondition::free,
                    .make = {},
                    .answer = {}};
  adoption.make = [held = std::make_shared<std::string>(std::move(context.partial->bytes))](
                      const JobContext& job) -> Result<value::ValuePtr> {
    if (auto room = job.hold(held->size()); !room) return room.error();
    return strings::String::of(*held, job.limits);
  };
  context.client.bytes_of_job = string.bytes.size();
  const auto replaced =
      string.answers_old ? std::make_shared<Replaced>(Replaced{context.services.keyspace}) : nullptr;
  const bool must_be_there = string.condition == PutCondition::taken;
  if (must_be_there || replaced)
    adoption.still_wanted = [&keys = context.services.keyspace, database = adoption.database,
                             key = adoption.key, must_be_there, replaced] {
      value::Value* const there = keys.find({.database = database, .key = key});
      if (replaced) replaced->look(there);
      return (there != nullptr || !must_be_there) && !(replaced && replaced->is_other);
    };
  adoption.answer = answer_of_job(std::move(string), replaced);
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

}  // namespace

StringGroup::StringGroup(const Context& context) {
  SEPAL_ASSERT(context.alone, "a group of changes begins while other workers record theirs");
  // Groups do not nest: EXEC, or the script, has one open.
  if (!context.mode.in_transaction) log_ = context.record.log;
  if (log_ != nullptr) log_->begin_group();
}

StringGroup::~StringGroup() {
  if (log_ != nullptr) log_->end_group();
}

FoundString find_string_part(Context& context, std::string_view key) {
  return context.partial == nullptr ? find_string_counted(context, key) : find_string(context, key);
}

bool refuse_length(Context& context, std::uint64_t offset, std::uint64_t byte_count) {
  if (offset <= strings::string_bytes_max && byte_count <= strings::string_bytes_max - offset) return false;
  context.reply.error(text::string_too_long);
  return true;
}

bool write_string(Context& context, std::string_view key, std::uint64_t offset,
                  std::span<const std::byte> bytes) {
  SEPAL_ASSERT(context.alone, "a string is written while other workers may set its bits");
  // Without a group, a crash could leave the first pieces of a write in the journal and lose the rest.
  std::optional<StringGroup> group;
  if (needs_group(bytes.size())) group.emplace(context);
  const auto written =
      writers::write(context.changes, {.database = context.client.database, .key = key}, offset, bytes);
  if (!written) context.reply.error(string_refusal(written.error().code));
  return written.ok();
}

// The order of the checks matters. What is under the key is looked at with the gate closed only, because a
// look before that could be outdated. A target of a mirror stays, also if the new string would be gone at
// once.
Next put_string(Context& context, NewString string) {
  if (!is_ready_to_put(context, string.bytes)) return Next::more;
  if (!context.alone) return Next::need_alone;
  const keyspace::DatabaseKey key{.database = context.client.database, .key = string.key};
  if (context.services.keyspace.is_target(key, context.now)) return refuse(context, text::target_of_mirror);
  const bool is_past = keyspace::is_past(string.deadline, context.now);
  FoundString old;
  if (string.answers_old && (old = find_string_counted(context, string.key)).refused) return Next::done;
  if (refuse_reply(context, length_of(old))) return Next::done;
  if (!is_past && string.bytes.size() > string_at_once_max) return adopt_long(context, std::move(string));
  // The change must not free the string that is answered behind it.
  const strings::StringPtr held(old.value);
  const auto answer = [&] {
    if (old.value != nullptr) return answer_string(context, old, 0, length_of(old));
    if (string.answers_old) {
      context.reply.null();
    } else {
      string.answer(context.reply);
    }
    return Next::done;
  };
  if (is_past) {
    context.changes.remove(key);
    return answer();
  }
  auto made = strings::String::of(string.bytes, context.services.keyspace.machine_limits());
  if (!made) return refuse(context, string_refusal(made.error().code));
  std::optional<StringGroup> group;
  if (!string.in_group && needs_group(string.bytes.size())) group.emplace(context);
  const auto put = writers::put_string(context.changes, key, std::move(*made), string.deadline);
  if (!put) return refuse(context, string_refusal(put.error().code));
  return answer();
}

std::uint64_t reply_room(const Context& context) {
  constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t of_clients = context.services.options.clients_memory_max;
  std::uint64_t bytes_max = of_clients == 0 ? unbounded : of_clients;
  // All of it is copied while other clients wait.
  if (context.mode.in_transaction) bytes_max = std::min(bytes_max, transaction_reply_bytes_max);
  // A string that finds room is not dropped afterwards with what stands around it: GETDEL has removed it.
  constexpr std::uint64_t around_bytes = 32;
  return bytes_max - std::min(bytes_max, context.reply.size() + around_bytes);
}

bool refuse_reply(Context& context, std::uint64_t byte_count) {
  if (byte_count <= reply_room(context)) return false;
  context.reply.error(context.mode.in_transaction ? text::strings_too_long_in_transaction
                                                  : text::strings_reply_too_long);
  return true;
}

std::unique_ptr<const resp::Source> source_of(const Context& context, strings::String& string,
                                              std::uint64_t offset) {
  return std::make_unique<StringBytes>(context.services.keyspace, string, offset);
}

Next answer_string(Context& context, const FoundString& found, std::uint64_t offset,
                   std::uint64_t byte_count) {
  SEPAL_ASSERT(
      found.value != nullptr && offset <= length_of(found) && byte_count <= length_of(found) - offset,
      "a part of a string reaches behind its end");
  if (byte_count > string_at_once_max || context.mode.in_transaction)
    if (refuse_reply(context, byte_count)) return Next::done;
  // In EXEC and scripts the replies of the next commands stand behind this one, and what the next commands
  // write must not be in it.
  if (byte_count <= string_at_once_max || context.mode.in_transaction) {
    context.reply.bulk(found.value->text(offset, byte_count));
  } else {
    context.reply.bulk_later(piece_of(source_of(context, *found.value, offset), byte_count));
  }
  return Next::done;
}

bool is_ready_to_put(Context& context, std::string_view bytes) {
  return bytes.size() <= string_at_once_max || context.mode.in_transaction || copied_whole(context, bytes);
}

}  // namespace sepal::command
