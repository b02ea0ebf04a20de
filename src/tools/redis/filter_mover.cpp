#include "tools/redis/filter_mover.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tools/shell/seed.hpp"

namespace sepal::tools {
namespace {

// A server runs the requests that it has received in one go, and its other clients wait meanwhile. These
// bounds keep that short.
constexpr std::int64_t small_filter_bytes = 64 << 10;
constexpr std::int64_t dumped_at_once_bytes = 512 << 10;
// The payload of such a filter is not longer than the longest word that a server takes by default, 512 MiB.
constexpr std::int64_t dumped_bytes_max = 511 << 20;
// A key counts as so many bytes in the progress.
constexpr std::uint64_t key_weight = 512;
constexpr std::size_t questions_per_sample = 1000;

bool is_cuckoo(const RemoteKey& filter) {
  return filter.type == cuckoo_type;
}

bool has_window(const RemoteKey& filter) {
  return filter.type == window_type;
}

bool is_dumped(const RemoteKey& filter) {
  return filter.figures.bytes <=
         (is_cuckoo(filter) || has_window(filter) ? dumped_bytes_max : small_filter_bytes);
}

// Whether a filter of the target can have been a copy. A copy of a cuckoo filter, or of one with a window,
// keeps its shape for ever.
bool may_be_copy(const RemoteKey& source, const RemoteKey& target) {
  const bool keeps_shape = is_cuckoo(source) || has_window(source);
  return target.is_filter && target.type == source.type &&
         (!keeps_shape || source.figures.of_shape(target.figures));
}

// Whether a Bloom filter or one with a window has arrived without items that it had before.
bool lacks_items(const RemoteKey& filter, const FilterFigures& there) {
  if (has_window(filter)) return filter.figures.window.has_more(there.window);
  return !is_cuckoo(filter) && there.items < filter.figures.items;
}

std::uint64_t positive(std::int64_t figure) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, figure));
}

}  // namespace

FilterMover::FilterMover(MoveParts parts)
    : parts_(std::move(parts)), temporary_(parts_.target), random_(drawn_seed()) {}

std::uint64_t FilterMover::weight_of(const RemoteKey& filter) {
  return key_weight + positive(filter.figures.bytes);
}

void FilterMover::count(const RemoteKey& filter, MovedKeys& keys) {
  ++keys.filters;
  keys.items += positive(filter.figures.items);
  keys.bytes += positive(filter.figures.bytes);
}

void FilterMover::refuse(const RemoteKey& filter, const std::string& why) {
  // A server's words go to a terminal.
  parts_.report.keys.refuse(readable_key(why), database_, filter.key);
}

Result<void> FilterMover::move(std::uint32_t database, std::span<const RemoteKey> filters,
                               std::span<const RemoteKey> there) {
  SEPAL_ASSERT(filters.size() == there.size(), "the target was not asked about each key of the source");
  database_ = database;
  std::vector<const RemoteKey*> small;
  std::int64_t small_bytes = 0;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (!filters[i].is_filter) continue;
    const auto differs = needs_copy(filters[i], there[i]);
    if (!differs) return differs.error();
    if (!*differs) continue;
    if (!is_dumped(filters[i])) {
      if (auto done = copy_large(filters[i]); !done) return done;
      continue;
    }
    small.push_back(&filters[i]);
    small_bytes += filters[i].figures.bytes;
    if (small_bytes < dumped_at_once_bytes) continue;
    if (auto done = copy_small(small); !done) return done;
    small.clear();
    small_bytes = 0;
  }
  return copy_small(small);
}

// Clients have changed a target that has more than the source, and a copy would lose these changes. All else
// that differs is an older state of the source, or what a run that was ended has left.
FilterMover::Verdict FilterMover::verdict(const RemoteKey& source, const RemoteKey& target) const {
  if (target.type == "none") return Verdict::copy;
  if (!may_be_copy(source, target)) return Verdict::conflict;
  if (source.figures.alike(target.figures))
    return same_deadline(source, target, parts_.how) ? Verdict::same : Verdict::deadline;
  return target.figures.went_on_from(source.figures) ? Verdict::conflict : Verdict::copy;
}

// False: there is nothing to copy.
Result<bool> FilterMover::needs_copy(const RemoteKey& source, const RemoteKey& target) {
  const Verdict what = verdict(source, target);
  if (what == Verdict::copy) return true;
  parts_.advance(weight_of(source));
  if (what == Verdict::conflict) {
    const char* const went_on = is_cuckoo(source)
                                    ? "the target's filter has more adds or removals, so it is left alone"
                                    : "the target's filter has more items, so it is left alone";
    refuse(source, may_be_copy(source, target) ? went_on : value_in_the_way(target));
    return false;
  }
  ++parts_.report.same;
  if (what == Verdict::deadline) {
    ++parts_.report.deadlines;
    if (auto done = set_deadline(parts_.target, source.key, source.deadline); !done) return done.error();
  }
  // Copies of earlier runs are checked as well.
  samples_.offer({.database = database_, .filter = source});
  return false;
}

// --- in one piece -----------------------------------------------------------------------------------------

Result<void> FilterMover::copy_small(std::span<const RemoteKey* const> filters) {
  // Two pipelines: all dumps from the source, then all restores to the target. Each request has exactly one
  // reply, in order, so every reply is taken, whatever it says.
  for (const RemoteKey* filter : filters) parts_.source.add({"DUMP", filter->key});
  std::vector<const RemoteKey*> sent;
  for (const RemoteKey* filter : filters) {
    const auto dump = parts_.source.receive();
    if (!dump) return dump.error();
    if (dump->view().is_error()) {
      refuse(*filter, std::string(dump->view().text()));
    } else if (dump->view().is_null()) {
      ++parts_.report.keys.others["gone before they were copied"];
    } else {
      if (auto done = restore(*filter, dump->view().text()); !done) return done;
      parts_.target.add({commands_of(*filter).info, filter->key});
      sent.push_back(filter);
    }
  }
  for (const RemoteKey* filter : sent) {
    const auto restored = parts_.target.receive();
    if (!restored) return restored.error();
    const auto info = parts_.target.receive();
    if (!info) return info.error();
    if (auto done = arrived(*filter, restored->view(), info->view()); !done) return done;
  }
  for (const RemoteKey* filter : filters) parts_.advance(weight_of(*filter));
  return {};
}

// ABSTTL: the deadline is a time, and 0 is none. If the deadline is past, the server answers OK all the same,
// and the figures behind it find no key: see arrived().
Result<void> FilterMover::restore(const RemoteKey& filter, std::string_view payload) {
  const std::string deadline = std::to_string(filter.deadline);
  // add() copies the payload, which saves a round trip to the kernel for each of many short ones.
  if (payload.size() > positive(small_filter_bytes))
    return parts_.target.send({"RESTORE", filter.key, deadline, payload, "REPLACE", "ABSTTL"});
  parts_.target.add({"RESTORE", filter.key, deadline, payload, "REPLACE", "ABSTTL"});
  return {};
}

Result<void> FilterMover::arrived(const RemoteKey& filter, ReplyView stored, ReplyView info) {
  if (stored.is_error() || info.is_error()) {
    const bool past = !stored.is_error() && filter.deadline != keyspace::no_deadline;
    if (past) {
      ++parts_.report.keys.others["past their deadline"];
    } else {
      refuse(filter, std::string(stored.is_error() ? stored.text() : info.text()));
    }
    return {};
  }
  return judge_figures(filter, figures_of(info));
}

// `filter` has the figures of the source before the copy, and `there` those that have arrived. Clients may
// have changed the source meanwhile. So more items of a Bloom filter are right, and fewer are a fault. Where
// a filter has a window, the same holds for those that are not over. A cuckoo filter may have any others, but
// only if the source has others, too.
Result<void> FilterMover::judge_figures(const RemoteKey& filter, const FilterFigures& there) {
  if (is_cuckoo(filter) && !there.alike(filter.figures)) {
    const auto now = figures_now(filter);
    if (!now) return now.error();
    if (now->alike(filter.figures)) {
      refuse(filter, "it arrived with other figures");
      return {};
    }
  }
  if (lacks_items(filter, there)) {
    refuse(filter, "it arrived with fewer items");
    return {};
  }
  count(filter, parts_.report.keys);
  samples_.offer({.database = database_, .filter = filter});
  return {};
}

Result<FilterFigures> FilterMover::figures_now(const RemoteKey& filter) {
  const auto info = parts_.source.ask({commands_of(filter).info, filter.key});
  return info ? Result<FilterFigures>(figures_of(info->view())) : info.error();
}

// --- in pieces --------------------------------------------------------------------------------------------

Result<void> FilterMover::copy_large(const RemoteKey& filter) {
  parts_.advance(key_weight);
  if (has_window(filter)) {
    refuse(filter,
           "it is larger than 511 MiB, and no request has room for it; move the data directory or the RDB "
           "file of the source");
    return {};
  }
  const auto refused = is_cuckoo(filter) ? copy_aside(filter) : copy_under_its_key(filter);
  if (!refused) return refused.error();
  if (!refused->empty()) {
    refuse(filter, *refused);
    return {};
  }
  const auto info = parts_.target.ask({commands_of(filter).info, filter.key});
  if (!info) return info.error();
  // All pieces were answered without an error, so there is no reply to judge.
  return arrived(filter, ReplyView(nullptr), info->view());
}

// A Bloom filter gets its key with its last piece. Returns why it was not copied; empty: it was.
Result<std::string> FilterMover::copy_under_its_key(const RemoteKey& filter) {
  auto refused = copy_pieces(filter, filter.key, [this] { return first_error_of(parts_.target, 1); });
  // Pieces carry no deadline. If the run ends before this line, the next run finds the same figures and
  // another deadline, and sets it (Verdict::deadline).
  if (!refused || !refused->empty() || filter.deadline == keyspace::no_deadline) return refused;
  if (auto done = set_deadline(parts_.target, filter.key, filter.deadline); !done) return done.error();
  return refused;
}

// A cuckoo filter is there from its header on, and its other pieces come under that key. An add or a removal
// changes what CF.INFO tells. Returns why the filter was not copied; empty: it was.
Result<std::string> FilterMover::copy_aside(const RemoteKey& filter) {
  const auto before = figures_now(filter);
  if (!before) return before.error();
  auto refused = copy_pieces(filter, temporary_.name(), [this] {
    temporary_.add_hour();
    return first_error_of(parts_.target, 2);
  });
  if (refused && refused->empty()) {
    const auto behind = figures_now(filter);
    if (!behind) return behind.error();
    refused = behind->alike(*before)
                  ? temporary_.finish(filter)
                  : std::string("it changed while it was copied; stop its writers and run this again");
  }
  if (refused && !refused->empty())
    if (auto removed = temporary_.remove(); !removed) return removed.error();
  return refused;
}

// Copies all pieces to a key of the target; stored() receives the reply to one, and returns a refusal.
// Returns why the filter was not copied; empty: it was. While the target stores a piece, the source makes the
// next one.
Result<std::string> FilterMover::copy_pieces(const RemoteKey& filter, const std::string& to,
                                             const std::function<Result<std::string>()>& stored) {
  const FilterCommands& commands = commands_of(filter);
  auto piece = parts_.source.ask({commands.scan, filter.key, "0"});
  // An empty cuckoo filter of RedisBloom has no piece.
  std::string at_end = "it is empty; make it at the target with CF.RESERVE";
  for (;;) {
    if (!piece) return piece.error();
    if (piece->view().is_error()) return std::string(piece->view().text());
    const std::int64_t iterator = piece->view()[0].number();
    if (iterator == 0) return at_end;
    at_end.clear();
    const std::string place = std::to_string(iterator);
    const std::string_view bytes = piece->view()[1].text();
    // The source is asked for the next piece before the target gets this one.
    parts_.source.add({commands.scan, filter.key, place});
    if (auto done = parts_.source.flush(); !done) return done.error();
    if (auto done = parts_.target.send({commands.load, to, place, bytes}); !done) return done.error();
    parts_.advance(bytes.size());
    *piece = RedisReply(nullptr);  // Two pieces at once would take twice the memory.
    auto refused = stored();
    if (!refused) return refused;
    // The reply of the source is taken in any case: it would otherwise answer the next request of this
    // connection.
    piece = parts_.source.receive();
    if (piece && !refused->empty()) return refused;
  }
}

// --- after ------------------------------------------------------------------------------------------------

Result<void> FilterMover::check(const std::function<void()>& next) {
  parts_.report.questions = questions_per_sample;
  for (const Sample& one : samples_.kept()) {
    if (auto done = parts_.select(one.database); !done) return done;
    if (auto done = check(one); !done) return done;
    next();
  }
  return {};
}

// Asks both for the same random items. A filter says yes to some of them by its false positives. A copy has
// the same bits, so it has the same false positives: they test it as well as known items do.
Result<void> FilterMover::check(const Sample& one) {
  const FilterCommands& commands = commands_of(one.filter);
  std::vector<std::string> items;
  for (std::size_t i = 0; i < questions_per_sample; ++i)
    items.push_back("sepal-migrate-" + std::to_string(random_()));
  std::vector<std::string_view> words{commands.exists, one.filter.key};
  words.insert(words.end(), items.begin(), items.end());
  // Before the questions and behind them: items that are over between two of the questions are no fault.
  parts_.target.add({commands.info, one.filter.key});
  parts_.target.add(words);
  parts_.target.add({commands.info, one.filter.key});
  if (auto sent = parts_.target.flush(); !sent) return sent;
  parts_.source.add(words);
  // Behind the questions: if the figures are still those of the copy, the source had got no further item
  // when it answered the questions.
  parts_.source.add({commands.info, one.filter.key});
  const auto before = parts_.target.receive();
  if (!before) return before.error();
  const auto theirs = parts_.target.receive();
  if (!theirs) return theirs.error();
  const auto behind = parts_.target.receive();
  if (!behind) return behind.error();
  const auto ours = parts_.source.receive();
  if (!ours) return ours.error();
  const auto info = parts_.source.receive();
  if (!info) return info.error();
  if (info->view().is_error()) return {};  // It is gone meanwhile.
  const ReplyView refused = ours->view().is_error() ? ours->view() : theirs->view();
  if (refused.is_error()) {
    parts_.report.keys.refuse("it was copied and not checked: " + readable_key(std::string(refused.text())),
                              one.database, one.filter.key);
    return {};
  }
  const FilterFigures now = figures_of(info->view());
  const std::int64_t generation = one.filter.figures.window.newest();
  const bool forgets =
      std::ranges::any_of(std::array{now, figures_of(before->view()), figures_of(behind->view())},
                          [&](const FilterFigures& each) { return each.window.newest() != generation; });
  judge(one, ours->view(), theirs->view(), !forgets && now.alike(one.filter.figures));
  return {};
}

void FilterMover::judge(const Sample& one, ReplyView ours, ReplyView theirs, bool unchanged) {
  ++parts_.report.samples;
  if (!unchanged) ++parts_.report.changed;
  bool more = false;
  bool fewer = false;
  for (std::size_t i = 0; i < questions_per_sample; ++i) {
    const bool here = ours[i].number() == 1;
    const bool there = theirs[i].number() == 1;
    parts_.report.hits += static_cast<std::uint64_t>(here && there);
    more = more || (there && !here);
    fewer = fewer || (here && !there);
  }
  // The source alone may know an item if it has changed since the copy. The target alone may know one only
  // if items of the source can have left.
  const bool more_is_right = (is_cuckoo(one.filter) || has_window(one.filter)) && !unchanged;
  if ((!more || more_is_right) && !(fewer && unchanged)) return;
  parts_.report.keys.refuse("it answers differently on both sides", one.database, one.filter.key);
}

}  // namespace sepal::tools
