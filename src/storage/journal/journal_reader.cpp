#include "storage/journal/journal_reader.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/storage/format/journal_operations.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

constexpr std::uint64_t data_begin = sizeof(format::SegmentHeader);
constexpr std::uint64_t word_bytes = format::frame_alignment;
static_assert(data_begin % word_bytes == 0, "frames stand at multiples of it");

format::FrameHead head_of(std::span<const std::byte> bytes) {
  format::FrameHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}

bool may_be_frame(std::uint32_t body_bytes, std::uint32_t flags) {
  return body_bytes != 0 && body_bytes <= format::frame_body_bytes_max &&
         (flags == 0 || flags == format::frame_filler || flags == format::frame_continues);
}

// `bytes` is the whole frame.
bool verifies(const format::FrameHead& head, std::uint64_t position, std::span<const std::byte> bytes) {
  const bool filler = head.flags == format::frame_filler;
  const auto body = bytes.subspan(sizeof head, filler ? 0 : std::size_t{head.body_bytes});
  return head.checksum == format::frame_checksum(head, position, Checksum::of(body));
}

Error other_run(const SegmentFile& segment) {
  return with_advice(
      fail(Errc::damaged, segment.path.string() +
                              " does not go on where the generation and the segments before it end: it is of "
                              "a copy of this data directory that went on by itself, or something between "
                              "them is missing; put the files back that belong together"),
      "or " + std::string(restore_or_salvage));
}

}  // namespace

bool resumes(const JournalFrame& frame) {
  SEPAL_ASSERT(!frame.body.empty(), "a frame without operations is read");
  const auto first = std::to_integer<std::uint8_t>(frame.body.front());
  return first == static_cast<std::uint8_t>(format::Operation::resumed);
}

Result<JournalReader> JournalReader::open(Disk& disk, const Path& directory, const Start& start) {
  // The positions in headers and in SYNCED have the same limit: no sum of a position and a length wraps.
  if (std::max(start.cut, start.highest.of_all()) > format::position_max)
    return fail(Errc::damaged, "the generation in " + directory.string() +
                                   " names a position in the journal that none can have; " +
                                   std::string(restore_or_salvage));
  auto segments = list_segments(disk, directory);
  if (!segments) return segments.error();
  JournalReader reader(disk, start);
  reader.directory_ = directory;
  reader.segments_ = std::move(*segments);
  if (auto found = reader.find_start(); !found) return found.error();
  return reader;
}

Result<JournalReader> JournalReader::open_segment(Disk& disk, const Path& path) {
  auto segment = read_segment(disk, path);
  if (!segment) return segment.error();
  if (segment->header == SegmentFile::Header::of_another_version)
    return about(path.string(), unsupported(segment->version, known_journals));
  if (!segment->begins())
    return about(path.string(), damaged_at(0, "it does not begin as a segment of the journal does"));
  JournalReader reader(disk, {.cut = segment->first_position});
  reader.segments_.push_back(std::move(*segment));
  // What is missing behind the end may be in another segment. So the end of a single segment is no damage.
  reader.alone_ = true;
  if (auto entered = reader.enter(0); !entered) return entered.error();
  return reader;
}

Result<void> JournalReader::find_start() {
  for (std::size_t index = 0; index < segments_.size(); ++index)
    // The last one counts: after a torn tail was cut off, a newer segment begins at a position inside an
    // older one.
    if (segments_[index].begins() && segments_[index].first_position <= start_.cut) current_ = index;
  // Segments before the current one are older than everything that has to be read.
  for (std::size_t index = current_ == none ? 0 : current_; index < segments_.size(); ++index) {
    const SegmentFile& segment = segments_[index];
    if (segment.header != SegmentFile::Header::of_another_version) continue;
    return with_advice(about(segment.path.string(), unsupported(segment.version, known_journals)),
                       restore_or_salvage);
  }
  if (current_ != none) {
    begin_ = segments_[current_].first_position;
    // Older ones that begin there too are looked at on the way (go_on()).
    while (*begin_ == start_.cut && current_ > 0 && segments_[current_ - 1].begins() &&
           segments_[current_ - 1].first_position == *begin_)
      --current_;
    return enter(current_);
  }
  // If the first segment has lost its header, it may be the one that is looked for.
  if (segments_.empty() || !segments_[0].begins()) return {};
  const SegmentFile& first = segments_[0];
  // The journal has begun anew behind the generation. go_on() begins with this segment.
  if (may_begin_anew_at(first.first_position)) return {};
  return with_advice(fail(Errc::damaged, first.path.string() + " begins at position " +
                                             std::to_string(first.first_position) +
                                             " of the journal, and the segments before it, from position " +
                                             std::to_string(start_.cut) + " on, are missing"),
                     restore_or_salvage);
}

Result<void> JournalReader::enter(std::size_t index) {
  SEPAL_ASSERT(index < segments_.size(), "the reader enters a segment that is not there");
  current_ = index;
  return bytes_.open(*disk_, segments_[index]);
}

// Skips segments that were prepared and never used, and segments whose headers did not get to the disk. If
// such a segment was needed, no segment begins where the current one ends, and find_end() judges what is
// there.
std::size_t JournalReader::following() const {
  for (std::size_t index = behind(); index < segments_.size(); ++index)
    if (segments_[index].begins()) return index;
  return none;
}

// The offset of a position in the current segment. A position beyond the segment gives its end.
std::uint64_t JournalReader::offset_of(std::uint64_t position) const {
  SEPAL_ASSERT(current_ < segments_.size() && position >= segments_[current_].first_position,
               "a position before the segment that is read");
  const SegmentFile& segment = segments_[current_];
  const std::uint64_t room = segment.byte_count - std::min(segment.byte_count, data_begin);
  return data_begin + std::min(position - segment.first_position, room);
}

// The offset at which the frames of the current segment end at the latest.
std::uint64_t JournalReader::data_end() const {
  const std::size_t next = following();
  // A next segment that begins too early is for go_on() to report.
  if (next == none || segments_[next].first_position < position_) return segments_[current_].byte_count;
  return std::min(segments_[current_].byte_count, offset_of(segments_[next].first_position));
}

std::uint64_t JournalReader::bytes_total() const {
  const auto last = std::ranges::find_if(segments_.rbegin(), segments_.rend(), &SegmentFile::begins);
  if (last == segments_.rend()) return 0;
  const std::uint64_t end = last->first_position + last->byte_count;
  // The last segment may end before the cut.
  return end - std::min(end, start_.cut);
}

Result<std::span<const JournalFrame>> JournalReader::next() {
  while (!ended_) {
    const auto count = current_ == none ? std::size_t{0} : collect_frames();
    if (!count) return count.error();
    if (*count > 0) return std::span<const JournalFrame>(frames_);
    const auto more = go_on();
    if (!more) return more.error();
    ended_ = !*more;
  }
  return std::span<const JournalFrame>();
}

// Collects the frames that one read of the file brings. The last frame may reach beyond the position where
// the next segment begins. Then one of the two is wrong, and go_on() reports damage.
Result<std::size_t> JournalReader::collect_frames() {
  frames_.clear();
  const std::uint64_t end = data_end();
  for (std::uint64_t offset = offset_of(position_); offset < end;) {
    JournalFrame frame{.position = position_, .offset = offset, .body = {}, .segment = current_};
    // Not up to `end`: a frame that reaches beyond it has to be found, because it shows the damage.
    const auto bytes = frame_at(bytes_.byte_count(), frame);
    if (!bytes) return bytes.error();
    if (*bytes == 0) break;
    if (auto followed = follow_run(frame); !followed) return followed.error();
    if (!frame.body.empty()) frames_.push_back(frame);
    offset += *bytes;
    position_ += *bytes;
  }
  return frames_.size();
}

// `frame` stands in the current segment. A segment without a frame says nothing, because its header may be
// all that a crash has left of it.
//
// What every reader leaves out may be of any run: all from a `resumed` on, and a group without an end. A run
// that ends the journal before them and changes nothing saves a generation with that cut, and may be killed
// before it removes the segment.
Result<void> JournalReader::follow_run(const JournalFrame& frame) {
  if (current_ != followed_) {
    followed_ = current_;
    entries_.try_emplace(current_, Entry{.position = frame.position, .run = run_});
    const Lineage& lineage = segments_[current_].lineage;
    const bool tells = !alone_ && lineage.run != 0;  // 0: of an earlier version
    if (lineage.run == run_ || lineage.run_before == run_) {
      if (tells) run_ = lineage.run;
    } else if (tells) {
      if (foreign_group_ == none && !frame.body.empty() && resumes(frame)) return {};
      if (!frame.continues) return other_run(segments_[current_]);
      foreign_group_ = std::min(foreign_group_, current_);
    }
  }
  // A filler may stand between the frames of a group.
  const bool ends_group = !frame.continues && !frame.body.empty();
  return foreign_group_ != none && ends_group ? other_run(segments_[foreign_group_]) : Result<void>();
}

// The length of the frame at `frame.offset`. 0 if no frame verifies there, or if reading it would drop the
// collected frames from the buffer.
Result<std::uint64_t> JournalReader::frame_at(std::uint64_t end, JournalFrame& frame) {
  SEPAL_ASSERT(frame.offset <= end, "a frame is looked for behind the end of its segment");
  // The bodies of the collected frames are views of the buffer. A frame that is not in the buffer waits for
  // the next call of next().
  const auto in_reach = [&](std::size_t count) {
    return frames_.empty() || bytes_.holds(frame.offset, count);
  };
  if (end - frame.offset < sizeof(format::FrameHead) || !in_reach(sizeof(format::FrameHead)))
    return std::uint64_t{0};
  const auto head_bytes = bytes_.view(frame.offset, sizeof(format::FrameHead));
  if (!head_bytes) return head_bytes.error();
  if (head_bytes->size() < sizeof(format::FrameHead)) return std::uint64_t{0};
  const format::FrameHead head = head_of(*head_bytes);
  if (!may_be_frame(head.body_bytes, head.flags)) return std::uint64_t{0};
  // may_be_frame() has checked the limit, so this does not wrap.
  const auto length = static_cast<std::size_t>(format::frame_bytes(head.body_bytes));
  if (end - frame.offset < length || !in_reach(length)) return std::uint64_t{0};
  const auto bytes = bytes_.view(frame.offset, length);
  if (!bytes) return bytes.error();
  if (bytes->size() < length || !verifies(head, frame.position, *bytes)) return std::uint64_t{0};
  if (head.flags != format::frame_filler) frame.body = bytes->subspan(sizeof head, head.body_bytes);
  frame.continues = head.flags == format::frame_continues;
  return std::uint64_t{length};
}

// No frame verifies at position_. Goes on in the next segment if that begins there. False: the journal ends.
Result<bool> JournalReader::go_on() {
  if (const std::size_t next = following(); next != none) {
    const std::uint64_t first = segments_[next].first_position;
    if (first < position_)
      return with_advice(
          about(segments_[next].path.string(), damaged_at(0, "it begins before the one before it ends")),
          restore_or_salvage);
    const bool nothing_before = current_ == none && next == 0;
    if (first == position_ || (nothing_before && may_begin_anew_at(first))) {
      if (auto left = leave_for(next); !left) return left.error();
      position_ = first;
      if (auto entered = enter(next); !entered) return entered.error();
      return true;
    }
  }
  if (auto found = find_end(); !found) return found.error();
  return false;
}

// If the next segment begins where the current one does, the current one is not read. A run that begins a
// segment there has left out all that the older one has. So if there is anything else, one of the two is of
// a copy.
Result<void> JournalReader::leave_for(std::size_t next) const {
  if (current_ == none) return {};
  const SegmentFile& left = segments_[current_];
  const SegmentFile& entered = segments_[next];
  const bool told_apart = left.lineage.run != 0 && entered.lineage.run != 0;  // 0: of an earlier version
  if (left.first_position != entered.first_position || !told_apart || left.lineage.run == entered.lineage.run)
    return {};
  auto reader = open_segment(*disk_, left.path);
  if (!reader) return reader.error();
  for (bool first = true;; first = false) {
    const auto frames = reader->next();
    if (!frames) return frames.error();
    if (frames->empty() || (first && resumes(frames->front()))) return {};
    const auto continues = [](const JournalFrame& frame) { return frame.continues; };
    if (!std::ranges::all_of(*frames, continues)) return other_run(entered);
  }
}

// Finds out whether the journal may end at position_, and what lies beyond. The order of the tests decides
// which file the error names: a file that is too short, a bad frame, and only then SYNCED, which cannot tell
// where the loss is.
Result<void> JournalReader::find_end() {
  if (became_shorter()) return shorter();
  const auto tail = look_behind(position_);
  if (!tail) return tail.error();
  const std::uint64_t synced_position = std::max(tail->synced_position, relied_on());
  if (synced_position > position_ && !alone_) return damage(synced_position);
  if (auto whole = check_mark(); !whole) return whole;
  end_ = make_end(position_, *tail);
  return {};
}

bool JournalReader::may_begin_anew_at(std::uint64_t position) const {
  return position == start_.highest.of_all() || position == start_.highest.once;
}

// The saver syncs the journal up to the positions of its values before a generation becomes current. So
// everything below the highest of them was on disk. But a journal that begins at the cut or behind it may
// have begun anew, in an earlier version below the positions of values whose records are applied again.
std::uint64_t JournalReader::relied_on() const {
  // The operator has removed the whole journal, and a new one begins. Only SYNCED may still object.
  if (segments_.empty()) return 0;
  return begin_ && *begin_ < start_.cut ? start_.highest.of_all() : start_.highest.once;
}

// A file gets its full length before its header is written, so a shorter file has lost bytes. They matter
// only if the reader has not got past them.
bool JournalReader::became_shorter() const {
  if (current_ == none || alone_) return false;
  const SegmentFile& segment = segments_[current_];
  return segment.byte_count < segment.segment_bytes &&
         position_ - segment.first_position < segment.segment_bytes - data_begin;
}

Error JournalReader::shorter() const {
  SEPAL_ASSERT(current_ != none, "a journal that has not begun became shorter");
  const SegmentFile& segment = segments_[current_];
  const std::string what = "it has " + std::to_string(segment.byte_count) + " bytes and should have " +
                           std::to_string(segment.segment_bytes);
  return with_advice(about(segment.path.string(), damaged_at(segment.byte_count, what)), restore_or_salvage);
}

Error JournalReader::damage(std::uint64_t synced_position) const {
  const std::string what = "no whole frame stands at position " + std::to_string(position_) +
                           " of the journal, and everything before position " +
                           std::to_string(synced_position) + " was on disk";
  SEPAL_ASSERT(!segments_.empty(), "a journal without a segment is damaged");
  const bool before_first = current_ == none;
  const SegmentFile& segment = segments_[before_first ? 0 : current_];
  return with_advice(about(segment.path.string(), damaged_at(before_first ? 0 : offset_of(position_), what)),
                     restore_or_salvage);
}

// Compares the end of the journal, position_, with the mark. Before a `resumed` the mark tells whether the
// generation is missing that closed the gap: until there is one, SYNCED names nothing behind the gap.
Result<void> JournalReader::check_mark() const {
  if (!start_.synced || start_.synced->position <= position_) return {};
  return end_missing(*start_.synced);
}

// The segment that SYNCED names is the first suspect. If its header is right, then either an earlier segment
// ends too early, or that segment itself does.
// A sync ends a page with a filler, so the difference of the positions may be more than what changes took.
Error JournalReader::end_missing(const SyncedMark& mark) const {
  const auto named = std::ranges::find(segments_, mark.segment_number, &SegmentFile::number);
  Error lost = damaged_at(current_ == none ? 0 : offset_of(position_), "no whole frame stands there");
  Path path = segments_.empty() ? Path() : segments_[current_ == none ? 0 : current_].path;
  if (named == segments_.end() || !named->begins()) {
    path = directory_ / format::segment_name(mark.segment_number);
    lost = fail(Errc::damaged, named == segments_.end() ? "is not there" : "has lost its beginning");
  }
  const std::string synced = synced_path(directory_).string();
  return fail(Errc::damaged,
              about(path.string(), lost).detail + "; the journal ends at position " +
                  std::to_string(position_) + ", and " + synced +
                  " says that it was on disk up to position " + std::to_string(mark.position) + ": up to " +
                  std::to_string(mark.position - position_) +
                  " bytes are missing; put the missing files of the journal back, or save what is whole with "
                  "sepal salvage; to start without these bytes, remove " +
                  synced);
}

Result<JournalReader::Tail> JournalReader::look_behind(std::uint64_t position) {
  Tail tail;
  if (current_ != none) {
    if (auto looked = look_behind(position, position, offset_of(position), tail); !looked)
      return looked.error();
  }
  for (std::size_t index = behind(); index < segments_.size(); ++index) {
    if (auto opened = bytes_.open(*disk_, segments_[index]); !opened) return opened.error();
    // A segment that has lost its header is taken to continue at `position`.
    const std::uint64_t first = segments_[index].begins() ? segments_[index].first_position : position;
    if (auto looked = look_behind(position, first, data_begin, tail); !looked) return looked.error();
  }
  return tail;
}

// Looks at the open segment from `offset` on, which has the position `first_position`.
Result<void> JournalReader::look_behind(std::uint64_t position, std::uint64_t first_position,
                                        std::uint64_t offset, Tail& tail) {
  // Frames stand at multiples of word_bytes, and the first word of a frame has its length and its flags. So
  // the search reads each word, and looks closer where the word can be such a beginning. The checksum covers
  // the position, so an old frame that stands there does not verify.
  const std::uint64_t begin = offset;
  std::uint64_t data_bytes = 0;
  while (true) {
    // Skips holes: most of an unfilled segment was never written.
    offset += (bytes_.next_data(offset) - offset) / word_bytes * word_bytes;
    if (offset + word_bytes > bytes_.byte_count()) break;
    const auto bytes = bytes_.view(offset, SegmentBytes::capacity / 2);
    if (!bytes) return bytes.error();
    std::size_t at = 0;
    std::uint64_t word = 0;
    const auto plausible = [&] {
      return may_be_frame(static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32));
    };
    for (; at + word_bytes <= bytes->size() && !plausible(); at += word_bytes) {
      word = load_little_endian<std::uint64_t>(bytes->data() + at);
      if (word != 0) data_bytes = offset + at + word_bytes - begin;
    }
    if (at == 0) break;  // the file became shorter
    offset += at;
    // `at` and `offset` are behind the plausible word. So the search goes on with the next word, even if a
    // frame verifies here: later frames may name higher positions.
    if (!plausible()) continue;
    JournalFrame frame{.position = first_position + (offset - word_bytes - begin),
                       .offset = offset - word_bytes,
                       .body = {}};
    const auto synced = synced_position_at(frame);
    if (!synced) return synced.error();
    if (*synced > position) tail.synced_position = std::max(tail.synced_position, *synced);
  }
  tail.byte_count += data_bytes;
  return {};
}

// The synced position that the frame there names; 0 if no frame verifies. A frame names only positions before
// itself.
Result<std::uint64_t> JournalReader::synced_position_at(JournalFrame& frame) {
  const auto head_bytes = bytes_.view(frame.offset, sizeof(format::FrameHead));
  if (!head_bytes) return head_bytes.error();
  if (head_bytes->size() < sizeof(format::FrameHead)) return std::uint64_t{0};
  // This test comes first because it is cheap. To verify takes a checksum over up to frame_body_bytes_max.
  const std::uint64_t synced = head_of(*head_bytes).synced_position;
  if (synced <= position_ || synced > frame.position) return std::uint64_t{0};
  frames_.clear();
  const auto length = frame_at(bytes_.byte_count(), frame);
  if (!length) return length.error();
  return *length == 0 ? std::uint64_t{0} : synced;
}

Result<JournalEnd> JournalReader::end_before(const JournalFrame& frame) {
  SEPAL_ASSERT(frame.position <= position_, "the journal ends before a frame that was not read");
  if (auto moved = move_to(frame); !moved) return moved.error();
  const auto tail = look_behind(position_);
  if (!tail) return tail.error();
  // Unlike find_end(), this does not take the synced positions behind the end for damage: the frames there
  // are whole, and are left out on purpose.
  if (auto whole = check_mark(); !whole) return whole.error();
  end_ = make_end(position_, *tail);
  return end_;
}

Result<JournalEnd> JournalReader::end_before_group(const JournalFrame& first) {
  SEPAL_ASSERT(ended_, "a journal ends before a group that may still be completed");
  if (auto moved = move_to(first); !moved) return moved.error();
  if (auto found = find_end(); !found) return found.error();
  return end_;
}

Result<void> JournalReader::move_to(const JournalFrame& frame) {
  ended_ = true;
  position_ = frame.position;
  const Entry& entry = entries_.at(frame.segment);
  const std::uint32_t own = segments_[frame.segment].lineage.run;
  run_ = frame.position == entry.position || own == 0 ? entry.run : own;
  // Also if it is the current segment: the reader may have looked at later ones since.
  return enter(frame.segment);
}

JournalEnd JournalReader::make_end(std::uint64_t position, const Tail& tail) const {
  JournalEnd end{
      .position = position, .cut_bytes = tail.byte_count, .path = {}, .offset = 0, .beyond = {}, .run = run_};
  if (current_ != none) {
    end.path = segments_[current_].path;
    end.offset = offset_of(position);
  }
  for (std::size_t index = behind(); index < segments_.size(); ++index)
    end.beyond.push_back(segments_[index].path);
  return end;
}

}  // namespace sepal::storage
