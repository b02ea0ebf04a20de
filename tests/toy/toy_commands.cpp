// The commands of the toy. A member is added and removed with the gate closed.
#include "command/keys/lookup.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"
#include "toy/toy.hpp"

namespace sepal::command {
namespace {

using toy::Toy;

// 1 if the toy has changed. One without members goes.
Next change(Context& context, std::uint8_t what) {
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  keyspace::Keyspace& keyspace = context.services.keyspace;
  const auto [found, refused] = find_or_refuse<Toy>(context, key.key);
  if (refused) return Next::done;
  if (found == nullptr)
    if (const auto room = keyspace.limits_of_new(key); !room)
      return refuse(context, text_of(room.error().code));
  const auto member = std::as_bytes(std::span(context.words[2]));
  const auto done = context.changes.told(
      keyspace.change_recorded(key, Toy::own_kind, what, member),
      keyspace::Changed{.key = key, .kind = Toy::own_kind, .what = what, .bytes = member});
  context.reply.integer(done ? 1 : 0);
  if (found != nullptr && found->members().empty()) context.changes.remove(key);
  return Next::done;
}

Next toy_add(Context& context) {
  return change(context, toy::learned);
}

Next toy_del(Context& context) {
  return change(context, toy::forgotten);
}

Next toy_members(Context& context) {
  const auto [found, refused] = find_counted_or_refuse<Toy>(context, context.words[1]);
  if (refused) return Next::done;
  context.reply.array(found == nullptr ? 0 : found->members().size());
  if (found != nullptr)
    for (const std::string& member : found->members()) context.reply.bulk(member);
  return Next::done;
}

constexpr Family toy_row{.group = "toy", .categories = Category::set};
constexpr CommandSpec toy_family[] = {
    toy_row("toy.add key member", 3, "0.1.0", "Adds a member", toy_add,
            Flag::write | Flag::deny_oom | Flag::alone, one_key("RW insert")),
    toy_row("toy.del key member", 3, "0.1.0", "Removes a member", toy_del, Flag::write | Flag::alone,
            one_key("RW delete")),
    toy_row("toy.members key", 2, "0.1.0", "Lists the members", toy_members, Flag::read_only,
            one_key("RO access")),
};

}  // namespace

extern constinit const Rows toy_rows = toy_family;

}  // namespace sepal::command
