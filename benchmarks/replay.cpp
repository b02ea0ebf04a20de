// Measures how fast a start replays the journal.
//
//     replay [--quick] [--directory DIR]
//
// Writes journals of adds as workers record them, and replays each onto an empty keyspace, from a warm page
// cache. The columns: items in a frame; number of keys, which the frames use in turn; capacity of each
// filter; adds in a second of the clock, and in a second of CPU time.
#include <sepal/base/gate.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/replay/replay.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/format/operation_encoder.hpp"

namespace {

using namespace sepal;
namespace format = storage::format;

constexpr std::uint64_t segment_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t quick_divisor = 100;

struct Row {
  std::uint64_t frame_items;
  std::uint64_t keys;
  std::uint64_t capacity;
  double error_rate;
  std::uint64_t items;
};

constexpr Row rows[] = {
    {64, 1, 100'000'000, 0.01, 40'000'000},   {1, 1, 100'000'000, 0.01, 10'000'000},
    {64, 1, 100'000'000, 0.0001, 20'000'000}, {64, 1, 1'000'000, 0.01, 1'000'000},
    {1, 1000, 10'000, 0.01, 5'000'000},       {1, 100'000, 100, 0.01, 5'000'000},
};

class Nobody final : public keyspace::Housekeeper {
 public:
  void dispose(sepal::value::ValuePtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void give_pages(sepal::value::ValuePtr) override {}
  void due_at(keyspace::Deadline) override {}
};

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "replay: %s\n", error.detail.c_str());
  std::exit(1);
}

// Writes one segment after the other.
class Writer {
 public:
  Writer(storage::Disk& disk, std::filesystem::path directory)
      : disk_(disk), directory_(std::move(directory)), bytes_(segment_bytes) {
    begin();
  }

  void frame(const storage::OperationEncoder& operations) {
    const auto body = operations.bytes();
    const std::uint64_t length = format::frame_bytes(body.size());
    if (length > segment_bytes - used_) {
      end();
      begin();
    }
    format::FrameHead head;
    head.body_bytes = static_cast<std::uint32_t>(body.size());
    head.checksum = format::frame_checksum(head, position_, Checksum::of(body));
    std::memcpy(bytes_.data() + used_, &head, sizeof head);
    std::ranges::copy(body, bytes_.begin() + static_cast<std::ptrdiff_t>(used_ + sizeof head));
    used_ += length;
    position_ += length;
  }

  void end() {
    auto file = disk_.create(directory_ / format::segment_name(number_));
    if (!file) give_up(file.error());
    if (const auto written = (*file)->write_at(0, bytes_); !written) give_up(written.error());
  }

 private:
  void begin() {
    format::SegmentHeader header;
    header.segment_number = ++number_;
    header.first_position = position_;
    header.segment_bytes = segment_bytes;
    header.checksum = format::segment_checksum(header);
    std::ranges::fill(bytes_, std::byte{0});
    std::memcpy(bytes_.data(), &header, sizeof header);
    used_ = sizeof header;
  }

  storage::Disk& disk_;
  std::filesystem::path directory_;
  std::vector<std::byte> bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t used_ = 0;
};

std::string key_of(std::uint64_t index) {
  return "filter:" + std::to_string(index);
}

void write_journal(storage::Disk& disk, const std::filesystem::path& directory, const Row& row) {
  Writer writer(disk, directory);
  storage::OperationEncoder operations;
  const bloom::FilterOptions options{.error_rate = row.error_rate, .capacity = row.capacity, .seed = 1};
  const auto filter = bloom::Filter::create(options, {.bytes_max = std::uint64_t{1} << 40});
  if (!filter) give_up(filter.error());
  for (std::uint64_t key = 0; key < row.keys; ++key) {
    const std::string name = key_of(key);
    const auto head =
        bloom::made_record({.options = options, .first_layer = (*filter)->newest_layer().plan()});
    operations.record(
        keyspace::Made{.key = {.database = 0, .key = name}, .kind = value::Kind::bloom, .head = head});
    writer.frame(operations);
    operations.clear();
  }
  std::vector<Fingerprint> fingerprints(row.frame_items);
  for (std::uint64_t done = 0, frame = 0; done < row.items; done += row.frame_items, ++frame) {
    for (std::uint64_t i = 0; i < row.frame_items; ++i) {
      const std::uint64_t item = done + i;
      fingerprints[i] = fingerprint_of({reinterpret_cast<const char*>(&item), sizeof item}, 1);
    }
    operations.added({.database = 0, .key = key_of(frame % row.keys)}, fingerprints);
    writer.frame(operations);
    operations.clear();
  }
  writer.end();
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void measure(storage::Disk& disk, const std::filesystem::path& directory, const Row& row) {
  std::filesystem::create_directories(directory);
  write_journal(disk, directory, row);
  Nobody housekeeper;
  keyspace::Keyspace keyspace({}, housekeeper);
  Gate gate(2);
  const auto start = std::chrono::steady_clock::now();
  const double processor_start = processor_seconds();
  const auto report = storage::replay_journal(disk, directory, keyspace, gate, {}, {});
  const double processor = processor_seconds() - processor_start;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!report) give_up(report.error());
  const auto items = static_cast<double>(report->items);
  std::printf("%10llu %8llu %12llu %8g %14.1f M/s %10.1f M/s\n",
              static_cast<unsigned long long>(row.frame_items), static_cast<unsigned long long>(row.keys),
              static_cast<unsigned long long>(row.capacity), row.error_rate, items / seconds / 1e6,
              items / processor / 1e6);
  std::fflush(stdout);
  std::filesystem::remove_all(directory);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::filesystem::path directory = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") quick = true;
    if (argument == "--directory" && i + 1 < argc) directory = argv[++i];
  }
  directory /= "sepal-replay-" + key_of(static_cast<std::uint64_t>(std::time(nullptr)));
  const auto disk = storage::make_posix_disk();
  std::printf("%10s %8s %12s %8s %18s %14s\n", "items/frame", "keys", "capacity", "rate", "adds",
              "processor");
  for (Row row : rows) {
    if (quick) {
      row.items /= quick_divisor;
      row.keys = (row.keys + quick_divisor - 1) / quick_divisor;
      row.capacity = (row.capacity + quick_divisor - 1) / quick_divisor + row.items;
    }
    measure(*disk, directory, row);
  }
  return 0;
}
