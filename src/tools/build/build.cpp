#include "tools/build/build.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/bulk_add.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tools/build/filter_output.hpp"
#include "tools/build/fingerprint_spool.hpp"
#include "tools/build/item_reader.hpp"
#include "tools/build/plan.hpp"

namespace sepal::tools {
namespace {

using bloom::BulkAdd;
using bloom::Filter;

// What a thread keeps from one block of items to the next.
struct Lane {
  NumberedBlock block;
  std::vector<Fingerprint> items;
  BulkAdd::Workspace workspace;
};

// The first error of any thread. Synchronised.
class FirstError {
 public:
  void note(Error error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  [[nodiscard]] Result<void> outcome() const {
    const MutexLock lock(mutex_);
    return error_ ? Result<void>(*error_) : Result<void>();
  }

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ SEPAL_GUARDED_BY(mutex_);
};

std::uint64_t lines_with_return(std::string_view lines) {
  auto count = static_cast<std::uint64_t>(lines.ends_with('\r'));
  for (std::size_t at = lines.find("\r\n"); at != std::string_view::npos; at = lines.find("\r\n", at + 2))
    ++count;
  return count;
}

class Builder {
 public:
  Builder(storage::Disk& disk, const BuildRequest& request, Progress& progress)
      : disk_(disk), request_(request), progress_(progress) {
    SEPAL_ASSERT(request.thread_count >= 1 && !request.inputs.empty(),
                 "a filter is built of nothing, or by no thread");
  }

  Result<BuildReport> run() {
    auto done = look_at_inputs();
    if (done && !request_.capacity) done = repeatable_ ? count() : spool();
    if (done) done = make_filter();
    if (done) done = spool_ ? add_from_spool() : add_from_inputs();
    if (!done) return done.error();
    return write();
  }

 private:
  // Returns how many items there were in the lane's block.
  using Work = std::function<Result<std::uint64_t>(Lane&)>;

  Result<void> look_at_inputs() {
    bool all_sizes_known = true;
    for (const std::string& path : request_.inputs) {
      const auto kind = look_at_input(path, request_.items.format);
      if (!kind) return fail(kind.error().code, input_name(path) + ": " + kind.error().detail);
      // One input that cannot be read twice decides for all: counting the others would read them once more
      // for nothing.
      repeatable_ = repeatable_ && kind->cheap_to_repeat;
      all_sizes_known = all_sizes_known && kind->byte_count;
      input_bytes_ += kind->byte_count.value_or(0);
    }
    // A share of an unknown total would be wrong, so the progress then shows only the items.
    if (!all_sizes_known) input_bytes_ = 0;
    return {};
  }

  Result<void> count() {
    ItemReader reader(request_.inputs, request_.items);
    auto done = for_each_block("counting", reader, [this](Lane& lane) {
      std::uint64_t count = 0;
      for_each_item(request_.items.format, lane.block.bytes(), [&](std::string_view) { ++count; });
      return count;
    });
    items_read_ = reader.item_count();
    return done;
  }

  // Each thread writes the fingerprints of its block under the number of the block. So add_from_spool() adds
  // them in the order of the input, whatever the order of the writes.
  Result<void> spool() {
    auto created = FingerprintSpool::create(request_.output.parent_path());
    if (!created) return created.error();
    spool_ = std::move(*created);
    ItemReader reader(request_.inputs, request_.items);
    auto done = for_each_block("reading", reader, [this](Lane& lane) -> Result<std::uint64_t> {
      fingerprint(lane);
      if (auto written = spool_->write(lane.block.number, lane.items); !written) return written.error();
      return lane.items.size();
    });
    items_read_ = reader.item_count();
    return done;
  }

  Result<void> make_filter() {
    const bloom::FilterOptions options{.error_rate = request_.error_rate,
                                       .capacity = request_.capacity.value_or(items_read_),
                                       .expansion = request_.expansion,
                                       .seed = request_.seed};
    // check_options() would name a capacity that the user has not given.
    if (options.capacity == 0 && !request_.capacity)
      return fail(Errc::out_of_range, "there are no items; --capacity makes a filter without any");
    if (auto sound = check_options(options); !sound) return sound;
    auto created = Filter::create(options, filter_limits);
    if (!created && created.error().code == Errc::too_large) return fits_nowhere();
    if (!created) return created.error();
    filter_ = std::move(*created);
    return {};
  }

  Result<void> add_from_inputs() {
    BulkAdd adding(*filter_, filter_limits);
    ItemReader reader(request_.inputs, request_.items);
    auto done = for_each_block("adding", reader, [&](Lane& lane) {
      fingerprint(lane);
      // Batches behind this one wait for its number, so each block that a thread takes must be added. The
      // items count even if one is refused: place_of() finds its line by these counts.
      if (!adding.add(lane.block.number, lane.items, lane.workspace)) reader.stop();
      return lane.items.size();
    });
    items_read_ = reader.item_count();
    if (!done || !adding.refused()) return done;
    return refusal(reader.place_of(adding.refused()->item), adding.refused()->why);
  }

  Result<void> add_from_spool() {
    BulkAdd adding(*filter_, filter_limits);
    std::atomic<std::uint32_t> next{0};
    std::atomic<std::uint64_t> done_count{0};
    FirstError error;
    progress_.begin("adding", items_read_);
    on_all_threads([&] {
      Lane lane;
      // Numbers are taken in rising order. So a thread that waits in add() waits for another thread, and
      // never for a batch of its own.
      for (std::uint32_t batch = next++; batch < spool_->batch_count(); batch = next++) {
        if (auto read = spool_->read(batch, lane.items); !read) {
          // The other threads wait for this batch number, so an empty batch is added in its place.
          error.note(read.error());
          lane.items.clear();
        }
        // Nothing is refused here: the items were counted, so there is room for all.
        (void)adding.add(batch, lane.items, lane.workspace);
        const auto count = done_count += lane.items.size();
        progress_.update(count, count);
      }
    });
    progress_.end();
    SEPAL_ASSERT(!adding.refused(), "a filter for as many items as were counted is full");
    return error.outcome();
  }

  // All threads have ended: write_output() holds signals back for the calling thread only.
  Result<BuildReport> write() {
    const OutputFilter file{.key = request_.key, .filter = filter_, .header = bloom::header_of(*filter_)};
    const auto bytes = write_output(disk_, request_.output, file, progress_);
    if (!bytes) return bytes.error();
    return BuildReport{.items_read = items_read_,
                       .items_added = filter_->item_count(),
                       .capacity = filter_->capacity(),
                       .layer_count = filter_->layer_count(),
                       .lines_with_return = lines_with_return_,
                       .file_bytes = *bytes};
  }

  void fingerprint(Lane& lane) {
    lane.items.clear();
    for_each_item(request_.items.format, lane.block.bytes(),
                  [&](std::string_view item) { lane.items.push_back(fingerprint_of(item, request_.seed)); });
    if (request_.items.format == ItemFormat::lines)
      lines_with_return_ += lines_with_return(lane.block.bytes());
  }

  Result<void> for_each_block(const char* phase, ItemReader& reader, const Work& work) {
    FirstError error;
    std::atomic<std::uint64_t> item_count{0};
    progress_.begin(phase, input_bytes_);
    on_all_threads([&] {
      Lane lane;
      while (reader.next(lane.block)) {
        const auto count = work(lane);
        if (!count) {
          // The reader stops, so the other threads end after their present block.
          error.note(count.error());
          reader.stop();
          return;
        }
        reader.counted(lane.block, *count);
        progress_.update(reader.position(), item_count += *count);
      }
    });
    progress_.end();
    if (auto read = reader.outcome(); !read) return read;
    return error.outcome();
  }

  // The calling thread works as well. A jthread joins when it is destroyed, so `work` outlives all threads.
  void on_all_threads(const std::function<void()>& work) const {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < request_.thread_count; ++i) threads.emplace_back(work);
    work();
  }

  [[nodiscard]] Error refusal(const std::string& place, Filter::Refusal why) const;

  storage::Disk& disk_;
  const BuildRequest& request_;
  Progress& progress_;
  bool repeatable_ = true;
  std::uint64_t input_bytes_ = 0;  // 0: unknown
  std::uint64_t items_read_ = 0;
  std::atomic<std::uint64_t> lines_with_return_{0};
  std::unique_ptr<FingerprintSpool> spool_;
  bloom::FilterPtr filter_;
};

Error Builder::refusal(const std::string& place, Filter::Refusal why) const {
  switch (why) {
    case Filter::Refusal::full:
      return fail(Errc::filter_full, place + ": the filter is full: it holds its capacity of " +
                                         std::to_string(filter_->capacity()) +
                                         " items and does not scale; give it a larger one");
    case Filter::Refusal::layer_limit:
      return fail(Errc::layer_limit, place + ": the filter would need more than " +
                                         std::to_string(filter_limits.layers_max) +
                                         " layers; give it a larger capacity");
    default:
      return fail(Errc::out_of_memory, place + ": there is no memory for a further layer of the filter");
  }
}

}  // namespace

Result<BuildReport> build(storage::Disk& disk, const BuildRequest& request, Progress& progress) {
  return Builder(disk, request, progress).run();
}

}  // namespace sepal::tools
