// The short way of a filter that comes whole: a worker puts it under its key, if one record has room for its
// image or no journal is kept. The long way is a job of Adoptions, which writes the filter to a file first
// (docs/architecture.md, "Life of a filter that comes whole").
#include "command/run/adopting.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/value/image.hpp>

#include <string>
#include <utility>

#include "command/run/refuse.hpp"

namespace sepal::command {
namespace {

Result<void> adopt_now(Context& context, value::ValuePtr value, const Adoption& adoption) {
  const keyspace::DatabaseKey key{.database = adoption.database, .key = adoption.key};
  // The dispatcher has expired keys of the client's database only. COPY may name another one.
  context.changes.expire(key, context.now);
  if (auto may = may_adopt(context.services.keyspace, key, adoption.replace); !may) return may;
  auto outcome = context.changes.adopt(key, std::move(value), adoption.deadline);
  if (outcome && adoption.adopted) adoption.adopted();
  return outcome;
}

}  // namespace

Result<void> may_adopt(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, bool replace) {
  if (!replace && keyspace.find(key) != nullptr) return fail(Errc::key_exists);
  if (keyspace.is_target(key)) return fail(Errc::in_use, std::string(text::target_of_mirror));
  return {};
}

Next adopt(Context& context, value::ValuePtr value, Adoption adoption) {
  SEPAL_ASSERT(value != nullptr && adoption.answer,
               "a value that is not there is adopted, or its client gets no answer");
  const bool at_once =
      !context.changes.recording() || value::image_bytes(*value) <= keyspace::recorded_image_bytes_max;
  if (!at_once && context.mode.in_transaction) return refuse(context, text::whole_in_transaction);
  if (!at_once) {
    adoption.make = [made = std::move(value)](const JobContext& job) -> Result<value::ValuePtr> {
      // The filter is made already. Its memory is in no account before this.
      if (auto room = job.hold(value::row_of(*made).byte_count(*made)); !room) return room.error();
      return made;
    };
    context.services.adoptions.adopt(context.client, std::move(adoption));
    return Next::wait;
  }
  // The handler runs again from the start, and makes the filter anew: its source may have changed.
  if (!context.alone) return Next::need_alone;
  adoption.answer(context.reply, adopt_now(context, std::move(value), adoption));
  return Next::done;
}

bool copied_whole(Context& context, std::string_view bytes) {
  if (context.partial == nullptr) {
    context.partial = std::make_unique<PartialRun>();
    context.partial->bytes.reserve(bytes.size());
  }
  std::string& copy = context.partial->bytes;
  SEPAL_ASSERT(copy.size() <= bytes.size(), "more bytes were copied than there are");
  copy.append(bytes.substr(copy.size(), part_bytes_max));
  return copy.size() == bytes.size();
}

std::function<bool()> contents_stay(const Context& context, std::uint32_t database) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  return [&keyspace, database, contents = keyspace.contents_of(database)] {
    return keyspace.contents_of(database) == contents;
  };
}

void answer_adoption(resp::Reply& reply, const Result<void>& outcome) {
  if (outcome) return reply.ok();
  const bool flushed = outcome.error().code == Errc::no_such_key;
  reply.error(flushed ? std::string(text::database_changed) : reason_text(outcome.error()));
}

}  // namespace sepal::command
