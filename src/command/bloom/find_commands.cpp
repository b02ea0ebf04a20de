// BF.CHECK and BF.FIND: look-ups that tell missing filters, and that ask many filters (decisions/0054).
#include <sepal/bloom/commands/find.hpp>
#include <sepal/command/table/error_texts.hpp>

#include "command/bloom/bloom_row.hpp"
#include "command/bloom/look_up.hpp"
#include "command/keys/missing.hpp"
#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

// The setting missing_filter says nothing here.
Next bf_check(Context& context) {
  const value::Value* const found = find(context, context.words[1]);
  if (!bloom::is_filter(found)) return refuse_missing(context, found);
  const std::span<const std::string_view> items = context.words.subspan(2);
  const std::span<bool> present = context.scratch.flags(items.size());
  static_cast<void>(look_up_in(context, found, items, present));
  context.reply.array(items.size());
  context.reply.booleans(present);
  return Next::done;
}

constexpr CommandSpec find_family[] = {
    bloom_row("bf.check", bf_check, items_behind_key),
};

}  // namespace

constinit const Rows find_rows = find_family;

}  // namespace sepal::command
