// BF.MIRROR: items that are added to one filter (the source) are added to another one (the target) as well,
// until the target takes the place of the source (decisions/0014).
//
// The handlers change the keyspace in ordinary ways: COMMIT is a rename, ABORT a removal. The keyspace ends
// the mirror by itself, and frees its Link. So the name of the target is copied before such a change, and no
// Link is used behind it.

#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/command/users/acl_log.hpp>

#include <array>
#include <optional>

#include "command/bloom/mirror_action.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/mirror_state.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using keyspace::Mirrors;
using Words = std::span<const std::string_view>;

// The mirror of this source; null if there is none or its target is past its deadline.
const Mirrors::Link* mirror_from(const Context& context, const bloom::Filter& source) {
  const Mirrors::Link* const link = context.services.keyspace.mirrors().from(source);
  return link != nullptr && find(context, link->mirror.target) != nullptr ? link : nullptr;
}

// As mirror_from(), with the gate closed. Removes a target that is past its deadline, which ends the mirror.
const Mirrors::Link* living_mirror_from(Context& context, const bloom::Filter& source) {
  const Mirrors::Link* const link = context.services.keyspace.mirrors().from(source);
  if (link == nullptr) return nullptr;
  // A copy: if the target has expired, the Link is gone.
  const std::string target = link->mirror.target;
  const bool expired =
      context.changes.expire({.database = context.client.database, .key = target}, context.now);
  return expired ? nullptr : link;
}

void tell(Context& context, const bloom::Filter& source) {
  resp::Reply& reply = context.reply;
  const Mirrors::Link* const link = mirror_from(context, source);
  if (link == nullptr) return reply.null();
  const bool whole = link->mirror.state == keyspace::MirrorState::whole;
  constexpr std::size_t fields = 4;
  reply.map(fields);
  reply.simple("target");
  reply.bulk(link->mirror.target);
  reply.simple("items_mirrored");
  reply.integer_unsigned(items_mirrored(*link));
  reply.simple("state");
  reply.simple(whole ? "whole" : "broken");
  reply.simple("reason");
  reply.simple(reason_of(link->mirror.state));
}

std::string_view refusal_of(Errc code) {
  switch (code) {
    case Errc::no_such_key: return text::filter_not_found;
    case Errc::not_found: return text::mirror_target_not_found;
    case Errc::key_exists: return text::mirror_taken;
    case Errc::key_limit: return text::too_many_mirrors;
    default: return text::mirror_of_itself;
  }
}

// A client that lost its connection before the answer may ask again: a whole mirror to this target is +OK.
void begin(Context& context, const bloom::Filter& source, std::string_view target) {
  const Mirrors::Link* const link = living_mirror_from(context, source);
  if (link != nullptr && link->mirror.target == target && link->mirror.state == keyspace::MirrorState::whole)
    return context.reply.ok();
  // A target that was past its deadline is gone by now, so its source may get another one.
  const Result<void> begun = context.changes.begin_mirror(context.client.database, context.words[1], target);
  if (begun) return context.reply.ok();
  context.reply.error(refusal_of(begun.error().code));
}

void commit(Context& context, const Mirrors::Link& link, bool force) {
  if (!force && link.mirror.state != keyspace::MirrorState::whole)
    return context.reply.error(broken_mirror(link.mirror.state));
  const std::string target = link.mirror.target;
  const Result<void> renamed = context.changes.rename(context.client.database, target, context.words[1]);
  if (renamed) return context.reply.ok();
  context.reply.error(text_of(renamed.error().code));
}

// Refuses a user that may not change the target, which the request does not name: asked as if it did.
bool refuses_target(Context& context, const std::string& target) {
  const std::array<std::string_view, 3> words{context.words[0], target, target};
  const std::optional<Denial> denial = context.client.user->denied(context.spec, words);
  if (!denial) return false;
  const AclPlace place = context.mode.in_transaction ? AclPlace::script : AclPlace::toplevel;
  context.dispatcher.note_denial(*denial, context.client, context.spec, words, place, context.mode);
  context.reply.error(no_permission(denial_text(*denial, *context.client.user, context.spec)));
  return true;
}

// With the gate closed.
void change(Context& context, const bloom::Filter& source, MirrorAction action) {
  const Mirrors::Link* const link = living_mirror_from(context, source);
  if (link == nullptr) return context.reply.error(text::no_mirror);
  if (refuses_target(context, link->mirror.target)) return;
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  if (action == MirrorAction::commit || action == MirrorAction::force)
    return commit(context, *link, action == MirrorAction::force);
  if (action == MirrorAction::end) {
    context.changes.end_mirror(key);
  } else {
    const std::string target = link->mirror.target;
    context.changes.remove({.database = key.database, .key = target});
  }
  context.reply.ok();
}

Next bf_mirror(Context& context) {
  const MirrorAction action = mirror_action_of(context.words);
  if (action == MirrorAction::wrong) return refuse(context, text::syntax);
  const auto [source, refused] = find_or_refuse<bloom::Filter>(context, context.words[1]);
  if (refused || (action == MirrorAction::begin &&
                  refuses_other(context, find(context, context.words[2]), value::Kind::bloom)))
    return Next::done;
  if (source == nullptr) return refuse(context, text::filter_not_found);
  if (action == MirrorAction::tell) {
    tell(context, *source);
    return Next::done;
  }
  if (!context.alone) return Next::need_alone;
  if (action == MirrorAction::begin) {
    begin(context, *source, context.words[2]);
  } else {
    change(context, *source, action);
  }
  return Next::done;
}

// The words may be wrong: what a function does not know counts as a change.

bool asks_mirror(Words words) {
  return words.size() > 1 && mirror_action_of(words) == MirrorAction::tell;
}

// A mirror gives the target what clients add to the source, and COMMIT gives the source's name what the
// target has. So a client that changes a mirror must be allowed to read and to write both. Where the request
// does not name the target, the handler asks for that.
KeyUse key_use_of_mirror(Words words) {
  if (words.size() < 2) return {.count = 0};
  const MirrorAction action = mirror_action_of(words);
  if (action == MirrorAction::tell) return {.access = "RO access"};
  const bool names_target = action == MirrorAction::begin || action == MirrorAction::wrong;
  return {.count = names_target ? std::size_t{2} : std::size_t{1}, .access = "RW access update"};
}

bool frees_by_mirror(Words words, WallTime /*now*/) {
  return words.size() > 1 && mirror_action_of(words) == MirrorAction::abort;
}

constexpr Family mirror_row{
    .group = "module", .categories = Category::bloom, .flags = Flag::module, .flags_imply_categories = false};

constexpr CommandSpec mirror_family[] = {
    mirror_row(
        "bf.mirror source [target | OFF | COMMIT [FORCE] | ABORT]", -2, "0.1.0",
        "Lets every item that is added to a filter be added to another as well, which is to replace it",
        bf_mirror, Flag::write | Flag::outside_multi, Category::write,
        every_key("RW access update variable_flags"), key_use_of_mirror, asks_mirror, frees_by_mirror),
};

}  // namespace

constinit const Rows mirror_rows = mirror_family;

}  // namespace sepal::command
