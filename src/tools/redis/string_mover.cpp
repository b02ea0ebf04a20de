#include "tools/redis/string_mover.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

// A server runs the requests that it has received in one go, and its other clients wait meanwhile. These
// bounds keep that short.
constexpr std::uint64_t short_string_bytes = 64 << 10;
constexpr std::uint64_t short_at_once_bytes = 512 << 10;
constexpr std::uint64_t string_piece_bytes = 1 << 20;
static_assert(string_piece_bytes % string_page_bytes == 0);

// A comparison reads both strings, so the longer one decides whether a pair is short.
std::uint64_t longer_of(const StringPair& pair) {
  return std::max(pair.source->string_bytes, pair.target->string_bytes);
}

std::uint64_t piece_end(const RemoteKey& string, std::uint64_t offset) {
  return std::min(string.string_bytes, offset + string_piece_bytes);
}

void ask_piece(RedisConnection& server, const std::string& key, std::uint64_t begin, std::uint64_t end) {
  // For GETRANGE, the second position is that of the last byte.
  server.add({"GETRANGE", key, std::to_string(begin), std::to_string(end - 1)});
}

// An error is none, whatever the length of its text.
bool is_piece(ReplyView reply, const RemoteKey& string, std::uint64_t offset) {
  return reply.is_text() && reply.text().size() == piece_end(string, offset) - offset;
}

}  // namespace

// Compares eight bytes at a time. In a shorter last step, the bytes behind the end stay 0 in both words, so
// they count as equal.
StringDifference difference_of(std::string_view first, std::string_view second) {
  StringDifference difference{.first_has_more = first.size() > second.size(),
                              .second_has_more = second.size() > first.size()};
  const std::size_t common = std::min(first.size(), second.size());
  std::uint64_t more_in_first = 0;
  std::uint64_t more_in_second = 0;
  for (std::size_t at = 0; at < common; at += sizeof(std::uint64_t)) {
    std::uint64_t one = 0;
    std::uint64_t other = 0;
    const std::size_t count = std::min(sizeof one, common - at);
    std::memcpy(&one, first.data() + at, count);
    std::memcpy(&other, second.data() + at, count);
    more_in_first |= one & ~other;
    more_in_second |= other & ~one;
  }
  difference.first_has_more = difference.first_has_more || more_in_first != 0;
  difference.second_has_more = difference.second_has_more || more_in_second != 0;
  return difference;
}

void each_part_with_bits(std::string_view bytes,
                         const std::function<void(std::size_t, std::string_view)>& visit) {
  std::size_t begin = 0;  // of the pages that are to be visited
  for (std::size_t at = 0; at < bytes.size(); at += string_page_bytes) {
    const std::string_view page = bytes.substr(at, string_page_bytes);
    if (page.find_first_not_of('\0') != std::string_view::npos) continue;
    if (begin < at) visit(begin, bytes.substr(begin, at - begin));
    begin = at + page.size();
  }
  if (begin < bytes.size()) visit(begin, bytes.substr(begin));
}

StringMover::StringMover(MoveParts parts)
    : parts_(std::move(parts)), random_(drawn_seed()), temporary_(parts_.target) {}

Result<void> StringMover::move(std::uint32_t database, std::span<const StringPair> pairs) {
  database_ = database;
  std::vector<StringPair> short_ones;
  std::uint64_t short_bytes = 0;
  for (const StringPair& pair : pairs) {
    if (!pair.target->is_string && pair.target->type != "none") {
      refuse(*pair.source, value_in_the_way(*pair.target));
      parts_.advance(pair.source->string_bytes);
      continue;
    }
    if (longer_of(pair) > short_string_bytes) {
      if (auto done = move_long(pair); !done) return done;
      continue;
    }
    short_ones.push_back(pair);
    short_bytes += pair.source->string_bytes;
    // The bound is checked behind the addition, so one pair may exceed it.
    if (short_bytes < short_at_once_bytes) continue;
    if (auto done = move_short(short_ones); !done) return done;
    short_ones.clear();
    short_bytes = 0;
  }
  return move_short(short_ones);
}

// --- short strings ------------------------------------------------------------------------------------

Result<std::vector<StringMover::ShortPair>> StringMover::read_short(std::span<const StringPair> pairs) {
  for (const StringPair& pair : pairs) {
    parts_.source.add({"GET", pair.source->key});
    if (pair.target->is_string) parts_.target.add({"GET", pair.source->key});
  }
  std::vector<ShortPair> found;
  for (const StringPair& pair : pairs) {
    auto ours = parts_.source.receive();
    if (!ours) return ours.error();
    RedisReply theirs(nullptr);
    if (pair.target->is_string) {
      auto reply = parts_.target.receive();
      if (!reply) return reply.error();
      theirs = std::move(*reply);
    }
    parts_.advance(pair.source->string_bytes);
    // Since examine() the key has got another value. SET would replace it.
    if (theirs.view().is_error()) {
      refuse(*pair.source, std::string(theirs.view().text()));
      continue;
    }
    if (ours->view().is_error()) {
      refuse(*pair.source, std::string(ours->view().text()));
      continue;
    }
    if (!ours->view().is_text()) {
      ++parts_.report.keys.others["gone before they were copied"];
      continue;
    }
    // The string may have changed since examine(). What counts for the check is what was read here and is
    // sent.
    Sample sample = sample_of(*pair.source);
    sample.byte_count = ours->view().text().size();
    sample.look(0, ours->view().text());
    found.push_back({.pair = pair, .ours = std::move(*ours), .theirs = std::move(theirs), .sample = sample});
  }
  return found;
}

// SET replaces value and deadline in one step, so a short string needs no temporary key.
Result<void> StringMover::move_short(std::span<const StringPair> pairs) {
  const auto found = read_short(pairs);
  if (!found) return found.error();
  std::vector<const ShortPair*> sent;
  for (const ShortPair& one : *found) {
    if (one.theirs.view().is_text()) {
      const auto difference = difference_of(one.ours.view().text(), one.theirs.view().text());
      const auto differs = needs_copy(one.pair, difference, one.sample);
      if (!differs) return differs.error();
      if (!*differs) continue;
    }
    sent.push_back(&one);
  }
  for (const ShortPair* one : sent) {
    const RemoteKey& source = *one->pair.source;
    const std::string deadline = std::to_string(source.deadline);
    std::vector<std::string_view> words{"SET", source.key, one->ours.view().text()};
    // Without PXAT, SET also takes away the deadline that the target's key may have.
    if (source.deadline != keyspace::no_deadline) words.insert(words.end(), {"PXAT", deadline});
    parts_.target.add(words);
  }
  for (const ShortPair* one : sent) {
    const auto stored = parts_.target.receive();
    if (!stored) return stored.error();
    if (stored->view().is_error()) {
      refuse(*one->pair.source, std::string(stored->view().text()));
    } else {
      moved(one->ours.view().text().size(), one->sample);
    }
  }
  return {};
}

// --- long strings -------------------------------------------------------------------------------------

// Compares, if the target has a string, then copies into the temporary key, then gives that key the right
// name. The string under the right key stays as it is until the last step.
Result<void> StringMover::move_long(const StringPair& pair) {
  const RemoteKey& source = *pair.source;
  Sample sample = sample_of(source);
  if (pair.target->is_string) {
    const auto difference = compare(pair, sample);
    if (!difference) return difference.error();
    const auto differs = *difference ? needs_copy(pair, **difference, sample) : Result<bool>(false);
    if (!differs) return differs.error();
    if (!*differs) {
      parts_.advance(source.string_bytes);
      return {};
    }
  }
  auto refusal = copy_pieces(source, sample);
  if (refusal && refusal->empty()) refusal = temporary_.finish(source);
  if (!refusal) return refusal.error();
  if (refusal->empty()) {
    moved(source.string_bytes, sample);
    return {};
  }
  refuse(source, *refusal);
  return temporary_.remove();
}

// Reads both to the end, or until the source has a bit that the target lacks. Empty: the target's key has got
// another value, and the string is refused.
Result<std::optional<StringDifference>> StringMover::compare(const StringPair& pair, Sample& sample) {
  const RemoteKey& source = *pair.source;
  StringDifference difference{.first_has_more = source.string_bytes > pair.target->string_bytes,
                              .second_has_more = pair.target->string_bytes > source.string_bytes};
  for (std::uint64_t at = 0; at < source.string_bytes && !difference.first_has_more;
       at += string_piece_bytes) {
    ask_piece(parts_.source, source.key, at, piece_end(source, at));
    ask_piece(parts_.target, source.key, at, piece_end(source, at));
    // Both servers read their piece at the same time: receive() sends the target's request.
    if (auto sent = parts_.source.flush(); !sent) return sent.error();
    const auto theirs = parts_.target.receive();
    if (!theirs) return theirs.error();
    const auto ours = parts_.source.receive();
    if (!ours) return ours.error();
    // The text of an error must not be compared as if it were bytes of the string.
    if (theirs->view().is_error()) {
      refuse(source, std::string(theirs->view().text()));
      return std::optional<StringDifference>();
    }
    sample.look(at, ours->view().text());
    // The string became shorter, or is gone. copy_pieces() finds that out again, and says so to the user.
    if (!is_piece(ours->view(), source, at)) return std::optional(StringDifference{.first_has_more = true});
    const auto part = difference_of(ours->view().text(), theirs->view().text());
    difference.first_has_more = difference.first_has_more || part.first_has_more;
    difference.second_has_more = difference.second_has_more || part.second_has_more;
  }
  return std::optional(difference);
}

// Returns why the string was not copied; empty: it was. While the target stores a piece, the source makes the
// next one.
Result<std::string> StringMover::copy_pieces(const RemoteKey& source, Sample& sample) {
  auto refusal = begin_copy(source);
  if (!refusal || !refusal->empty()) return refusal;
  ask_piece(parts_.source, source.key, 0, piece_end(source, 0));
  for (std::uint64_t at = 0; at < source.string_bytes; at += string_piece_bytes) {
    const auto piece = parts_.source.receive();
    if (!piece) return piece.error();
    const std::string_view bytes = piece->view().text();
    if (piece->view().is_error()) return std::string(bytes);
    if (!is_piece(piece->view(), source, at))
      return std::string("it became shorter while it was copied; run this again");
    const std::uint64_t next = at + string_piece_bytes;
    const bool more = next < source.string_bytes;
    if (more) ask_piece(parts_.source, source.key, next, piece_end(source, next));
    if (auto sent = parts_.source.flush(); !sent) return sent.error();
    sample.look(at, bytes);
    parts_.advance(bytes.size());
    refusal = store_piece(at, bytes);
    if (!refusal) return refusal;
    if (refusal->empty()) continue;
    // The piece that was asked for ahead has no use. Its reply is taken all the same: it would otherwise
    // answer the next request of this connection.
    const auto unused = more ? parts_.source.receive() : Result<RedisReply>(RedisReply(nullptr));
    return unused ? refusal : unused.error();
  }
  return std::string();
}

// Writing the last byte gives the temporary key its whole length, and all bytes before it are zeros. So pages
// of zeros need not be sent (decisions/0028).
Result<std::string> StringMover::begin_copy(const RemoteKey& source) {
  // An empty string is a short one, unless the target has a long string. That one has more, so it is left
  // alone.
  SEPAL_ASSERT(source.string_bytes > 0, "a string without bytes is copied in pieces");
  RedisConnection& target = parts_.target;
  target.add({"DEL", temporary_.name()});
  target.add(
      {"SETRANGE", temporary_.name(), std::to_string(source.string_bytes - 1), std::string_view("\0", 1)});
  temporary_.add_hour();
  return first_error_of(target, 3);
}

Result<std::string> StringMover::store_piece(std::uint64_t offset, std::string_view bytes) {
  Result<void> sent;
  temporary_.add_question();
  // With the first part of each piece, so the key cannot expire while a long string is copied.
  temporary_.add_hour();
  std::size_t count = 1;
  each_part_with_bits(bytes, [&](std::size_t at, std::string_view part) {
    if (!sent) return;
    sent = parts_.target.send({"SETRANGE", temporary_.name(), std::to_string(offset + at), part});
    ++count;
  });
  if (!sent) return sent.error();
  auto lost = temporary_.receive_loss();
  auto refusal = first_error_of(parts_.target, count);
  return !lost || (refusal && refusal->empty()) ? lost : refusal;
}

// --- both ---------------------------------------------------------------------------------------------

// Draws one piece of the string beforehand. look() notes its digest when the comparison or the copy reads
// that piece anyway, so check() knows what was copied and not only what the source has by then.
StringMover::Sample StringMover::sample_of(const RemoteKey& source) {
  const std::uint64_t pieces =
      std::max<std::uint64_t>(1, (source.string_bytes + string_piece_bytes - 1) / string_piece_bytes);
  const std::uint64_t offset =
      std::uniform_int_distribution<std::uint64_t>(0, pieces - 1)(random_) * string_piece_bytes;
  return {.database = database_,
          .key = source.key,
          .has_deadline = source.deadline != keyspace::no_deadline,
          .offset = offset,
          .byte_count = piece_end(source, offset) - offset,
          .digest = 0};
}

void StringMover::Sample::look(std::uint64_t piece_offset, std::string_view bytes) {
  if (piece_offset == offset) digest = hash64(bytes, 0);
}

// The rule of decisions/0028: a bit that only the source has means a copy. Bits that only the target has come
// from clients of the target, and a copy would lose them.
// False: there is nothing to copy.
Result<bool> StringMover::needs_copy(const StringPair& pair, StringDifference difference,
                                     const Sample& sample) {
  if (difference.first_has_more) return true;
  if (difference.second_has_more) {
    refuse(*pair.source, "the target's string has all bits of the source's and more, so it is left alone");
    return false;
  }
  ++parts_.report.same_strings;
  samples_.offer(sample);
  if (same_deadline(*pair.source, *pair.target, parts_.how)) return false;
  ++parts_.report.string_deadlines;
  if (auto done = set_deadline(parts_.target, pair.source->key, pair.source->deadline); !done)
    return done.error();
  return false;
}

void StringMover::moved(std::uint64_t byte_count, const Sample& sample) {
  ++parts_.report.keys.strings;
  parts_.report.keys.string_bytes += byte_count;
  samples_.offer(sample);
}

void StringMover::refuse(const RemoteKey& source, const std::string& why) {
  // A server's words go to a terminal.
  parts_.report.keys.refuse(readable_key(why), database_, source.key);
}

// --- after --------------------------------------------------------------------------------------------

Result<void> StringMover::check() {
  for (const Sample& sample : samples_.kept()) {
    if (auto done = parts_.select(sample.database); !done) return done;
    if (auto done = check(sample); !done) return done;
  }
  return {};
}

// The digest is that of the bytes that were copied. So other bytes at the target are a wrong copy, and other
// bytes at the source are a change since.
Result<void> StringMover::check(const Sample& sample) {
  if (sample.byte_count == 0) return {};
  std::vector<std::uint64_t> digests;
  for (RedisConnection* server : {&parts_.target, &parts_.source}) {
    ask_piece(*server, sample.key, sample.offset, sample.offset + sample.byte_count);
    const auto reply = server->receive();
    if (!reply) return reply.error();
    // The deadline of the key has passed since.
    if (reply->view().text().empty() && sample.has_deadline) return {};
    digests.push_back(hash64(reply->view().text(), 0));
  }
  ++parts_.report.string_samples;
  if (digests[0] != sample.digest)
    parts_.report.keys.refuse("the target has other bytes than were copied", sample.database, sample.key);
  if (digests[1] != sample.digest) ++parts_.report.changed;
  return {};
}

}  // namespace sepal::tools
