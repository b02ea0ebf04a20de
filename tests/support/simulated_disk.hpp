// A disk in memory that fails and loses power where a test wants it to.
//
// Operations are counted from 1. Changes become durable as on a real disk: the contents of a file by its
// sync(), a name (created, renamed, removed) by sync_directory() of its directory. crash() takes the disk
// back to the durable state, and may keep some of the later changes:
//
//     Survival::synced     keeps only synced changes
//     Survival::all        keeps everything, as if the system had written it all back in time
//     Survival::chance     keeps any of the unsynced names, and some of the unsynced writes, the last one
//     torn
//
// This is harsher than most file systems, which keep the order of names.
//
// Stores into a mapped file are not operations and are not counted. After a crash, each of its pages is as
// last synced (Survival::synced) or as last stored (all). With Survival::chance it is one of the two, or torn
// between sectors. A page whose sync failed counts as clean: it becomes durable only when it is stored into
// again and then synced. Mappings that exist at a crash() stay usable, but later stores into them are lost.
#pragma once

#include <sepal/storage/disk/disk.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sepal::test {

using Bytes = std::vector<std::byte>;

enum class Survival : std::uint8_t { synced, all, chance };

inline constexpr std::size_t simulated_page_bytes = 4096;
inline constexpr std::size_t simulated_sector_bytes = 512;

// Synchronised.
class SimulatedDisk final : public storage::Disk {
 public:
  using Path = storage::Path;
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  // --- set by a test ---

  // The operation of this number fails once, and has no effect.
  void fail_at(std::uint64_t operation, Errc code) {
    const std::lock_guard lock(mutex_);
    fail_at_ = operation;
    fail_code_ = code;
  }
  void stop_failing() {
    const std::lock_guard lock(mutex_);
    fail_at_ = never;
  }
  // From this operation on there is no space, until free_space(). Reads and removals still work.
  void fill_at(std::uint64_t operation) {
    const std::lock_guard lock(mutex_);
    full_from_ = operation;
  }
  void free_space() {
    const std::lock_guard lock(mutex_);
    full_from_ = never;
  }
  // All files together cannot take more than this. A file without a name takes nothing.
  void set_capacity(std::uint64_t byte_count) {
    const std::lock_guard lock(mutex_);
    capacity_ = byte_count;
  }
  // So many further operations have an effect; all later ones fail, until crash().
  void lose_power_after(std::uint64_t operation) {
    const std::lock_guard lock(mutex_);
    power_until_ = operation;
  }
  void crash(Survival survival, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::lock_guard lock(mutex_);
    power_until_ = never;
    lock_holders_.clear();
    survive(*root_, survival, random);
  }
  // From now on these bytes of a file cannot be read.
  void wear_out(const Path& path, const storage::DataRange& range) {
    const std::lock_guard lock(mutex_);
    worn_[path] = range;
  }
  // From now on the file system has no hard links.
  void refuse_links() { links_ = false; }
  // A copy of the disk as the machine would find it if the power failed now, or, with Survival::all, if the
  // process died now.
  [[nodiscard]] std::unique_ptr<SimulatedDisk> crashed_copy(Survival survival, std::uint64_t seed) const {
    auto copy = std::make_unique<SimulatedDisk>();
    {
      const std::lock_guard lock(mutex_);
      std::map<const Node*, std::shared_ptr<Node>> copied;
      copy->root_ = copy_of(root_, copied);
    }
    copy->crash(survival, seed);
    return copy;
  }
  void restart_count() { count_ = 0; }
  [[nodiscard]] std::uint64_t operation_count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  // Called before each operation with its name and path, without a lock held.
  void set_observer(std::function<void(const char*, const Path&)> observer) {
    observer_ = std::move(observer);
  }

  // --- read and prepared by a test, not counted ---

  // All files below the root, by path.
  [[nodiscard]] std::map<std::string, Bytes> files() const {
    std::map<std::string, Bytes> all;
    collect(*root_, "", all);
    return all;
  }
  // Puts a file, with its directories, durably.
  void put(const Path& path, Bytes contents) {
    std::shared_ptr<Node> at = root_;
    for (const Path& part : path.parent_path()) {
      auto& child = at->names[part.string()];
      if (!child) child = directory_node();
      at->durable_names[part.string()] = child;
      at = child;
    }
    auto file = std::make_shared<Node>();
    file->durable = contents;
    file->bytes = std::move(contents);
    at->names[path.filename().string()] = file;
    at->durable_names[path.filename().string()] = file;
  }

  // --- Disk ---

  Result<std::unique_ptr<storage::File>> create(const Path& path) override {
    if (auto allowed = begin("create", path, true); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    const auto parent = find(path.parent_path());
    if (!parent) return missing(path);
    auto& node = parent->names[path.filename().string()];
    // The durable contents of an old file of this name survive until the new name is synced.
    node = std::make_shared<Node>();
    return std::unique_ptr<storage::File>(std::make_unique<SimulatedFile>(*this, node, path));
  }

  // Each file has another number.
  Result<storage::AsideFile> create_aside(const Path& target) override {
    const std::uint64_t number = ++asides_;
    const Path path = target.parent_path() / storage::aside_name(number);
    auto file = create(path);
    if (!file) return file.error();
    return storage::AsideFile{.path = path, .file = std::move(*file)};
  }

  Result<std::unique_ptr<storage::File>> open(const Path& path) override {
    if (auto allowed = begin("open", path, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    const auto node = find(path);
    if (!node) return missing(path);
    if (node->directory)
      return fail(Errc::io, "cannot open " + path.string() + ": it is not a regular file but a folder");
    return std::unique_ptr<storage::File>(std::make_unique<SimulatedFile>(*this, node, path));
  }

  // There are no links and pipes.
  Result<std::unique_ptr<storage::File>> open_plain(const Path& path) override { return open(path); }

  Result<std::unique_ptr<storage::MappedFile>> create_mapped(const Path& path,
                                                             std::uint64_t byte_count) override {
    if (auto allowed = begin("create_mapped", path, true); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    const auto parent = find(path.parent_path());
    if (!parent) return missing(path);
    if (byte_count > free_space_left()) return no_space("reserve disk space for", path);
    auto& node = parent->names[path.filename().string()];
    if (node) return fail(Errc::io, "cannot create " + path.string() + ": File exists");
    node = std::make_shared<Node>();
    node->mapped = true;
    node->bytes.resize(byte_count);
    return std::unique_ptr<storage::MappedFile>(std::make_unique<SimulatedMappedFile>(*this, node, path));
  }

  Result<void> make_directory(const Path& path) override {
    if (auto allowed = begin("make_directory", path, true); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    const auto parent = find(path.parent_path());
    if (!parent) return missing(path);
    auto& node = parent->names[path.filename().string()];
    if (!node) node = directory_node();
    if (!node->directory) return fail(Errc::io, path.string() + " is a file");
    return {};
  }

  Result<std::vector<std::string>> list(const Path& directory) override {
    if (auto allowed = begin("list", directory, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    const auto node = find(directory);
    if (!node) return missing(directory);
    if (!node->directory) return fail(Errc::io, "cannot list " + directory.string() + ": Not a directory");
    std::vector<std::string> names;
    for (const auto& [name, child] : node->names) names.push_back(name);
    return names;
  }

  Result<bool> exists(const Path& path) override {
    if (auto allowed = begin("exists", path, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    return find(path) != nullptr;
  }

  Result<void> rename(const Path& from, const Path& to) override {
    if (auto allowed = begin("rename", from, false); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    const auto node = find(from);
    const auto parent = find(to.parent_path());
    if (!node || !parent) return missing(from);
    find(from.parent_path())->names.erase(from.filename().string());
    parent->names[to.filename().string()] = node;
    return {};
  }

  Result<void> link(const Path& from, const Path& to) override {
    if (auto allowed = begin("link", to, true); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    const auto node = find(from);
    const auto parent = find(to.parent_path());
    if (!node || !parent) return missing(from);
    if (!links_) return fail(Errc::io, "cannot link " + from.string() + ": Operation not supported");
    if (!parent->names.emplace(to.filename().string(), node).second)
      return fail(Errc::io, "cannot link " + to.string() + ": File exists");
    return {};
  }

  Result<void> remove(const Path& path) override { return remove_tree(path); }

  Result<void> release(const Path& path, std::uint64_t offset) override {
    if (auto allowed = begin("release", path, false); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    const auto node = find(path);
    if (!node) return missing(path);
    const auto from = std::min<std::size_t>(static_cast<std::size_t>(offset), node->bytes.size());
    std::fill(node->bytes.begin() + static_cast<std::ptrdiff_t>(from), node->bytes.end(), std::byte{0});
    node->released_from = from;
    return {};
  }

  Result<std::uint64_t> free_bytes(const Path& path) override {
    if (auto allowed = begin("free_bytes", path, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    return count_ >= full_from_ ? std::uint64_t{0} : free_space_left();
  }

  Result<void> remove_tree(const Path& directory) override {
    if (auto allowed = begin("remove", directory, false); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    if (const auto parent = find(directory.parent_path())) parent->names.erase(directory.filename().string());
    return {};
  }

  Result<void> sync_directory(const Path& directory) override {
    if (auto allowed = begin("sync_directory", directory, false); !allowed) return allowed;
    const std::lock_guard lock(mutex_);
    const auto node = find(directory);
    if (!node) return missing(directory);
    node->durable_names = node->names;
    return {};
  }

  Result<std::unique_ptr<storage::DirectoryLock>> lock(const Path& path) override {
    if (auto allowed = begin("lock", path, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    auto& holder = lock_holders_[path.string()];
    if (!holder.expired()) return fail(Errc::in_use, path.string() + " is in use by process 1");
    auto held = std::make_unique<SimulatedLock>();
    holder = held->token;
    return std::unique_ptr<storage::DirectoryLock>(std::move(held));
  }

  Result<bool> is_locked(const Path& path) override {
    if (auto allowed = begin("is_locked", path, false); !allowed) return allowed.error();
    const std::lock_guard lock(mutex_);
    const auto holder = lock_holders_.find(path.string());
    return holder != lock_holders_.end() && !holder->second.expired();
  }

 private:
  struct Write {
    std::uint64_t offset = 0;
    Bytes bytes;
  };
  struct Node {
    bool directory = false;
    Bytes bytes;                  // contents of a file, as read
    Bytes durable;                // contents at the last sync
    std::vector<Write> unsynced;  // writes since then
    bool mapped = false;
    std::size_t released_from = std::numeric_limits<std::size_t>::max();  // no space is taken from there on
    std::map<std::size_t, Bytes> dropped;  // of a mapped file: contents of pages whose sync failed
    std::map<std::string, std::shared_ptr<Node>> names;
    std::map<std::string, std::shared_ptr<Node>> durable_names;
  };
  struct SimulatedLock final : storage::DirectoryLock {
    Result<void> note(std::string_view) override { return {}; }
    Result<void> check() override { return {}; }
    Result<bool> take_replacement(const IsOwn&) override { return false; }
    std::shared_ptr<int> token = std::make_shared<int>(0);
  };

  class SimulatedFile final : public storage::File {
   public:
    SimulatedFile(SimulatedDisk& disk, std::shared_ptr<Node> node, Path path)
        : disk_(disk), node_(std::move(node)), path_(std::move(path)) {}

    Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
      const auto allowed = disk_.begin("write", path_, true);
      const std::lock_guard lock(disk_.mutex_);
      const std::uint64_t end = offset + bytes.size();
      if (allowed && end > node_->bytes.size() && end - node_->bytes.size() > disk_.free_space_left())
        return no_space("write", path_);
      // A part of the write during which the power fails may survive.
      if (allowed || disk_.count_ == disk_.power_until_ + 1)
        node_->unsynced.push_back({.offset = offset, .bytes = {bytes.begin(), bytes.end()}});
      if (!allowed) return allowed;
      apply(node_->bytes, node_->unsynced.back());
      return {};
    }

    Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
      if (auto allowed = disk_.begin("read", path_, false); !allowed) return allowed.error();
      const std::lock_guard lock(disk_.mutex_);
      if (const auto worn = disk_.worn_.find(path_);
          worn != disk_.worn_.end() && offset < worn->second.end && worn->second.begin < offset + into.size())
        return fail(Errc::io, "cannot read " + path_.string() + ": Input/output error");
      if (offset >= node_->bytes.size()) return std::size_t{0};
      const auto from = std::span(node_->bytes).subspan(static_cast<std::size_t>(offset));
      const std::size_t count = std::min(into.size(), from.size());
      std::copy_n(from.begin(), count, into.begin());
      return count;
    }

    Result<std::uint64_t> size() override {
      if (auto allowed = disk_.begin("size", path_, false); !allowed) return allowed.error();
      const std::lock_guard lock(disk_.mutex_);
      return std::uint64_t{node_->bytes.size()};
    }

    // Like a file system that stores only pages with data.
    Result<std::vector<storage::DataRange>> data_ranges() override {
      if (auto allowed = disk_.begin("data_ranges", path_, false); !allowed) return allowed.error();
      const std::lock_guard lock(disk_.mutex_);
      const std::span<const std::byte> bytes = node_->bytes;
      std::vector<storage::DataRange> ranges;
      for (std::size_t at = 0; at < bytes.size(); at += simulated_page_bytes) {
        const std::size_t end = std::min(at + simulated_page_bytes, bytes.size());
        const auto page = bytes.subspan(at, end - at);
        static constexpr std::array<std::byte, simulated_page_bytes> zeros{};
        if (std::memcmp(page.data(), zeros.data(), page.size()) == 0) continue;
        if (ranges.empty() || ranges.back().end != at) ranges.push_back({.begin = at, .end = at});
        ranges.back().end = end;
      }
      return ranges;
    }

    Result<void> write_back(std::uint64_t, std::uint64_t) override {
      return disk_.begin("write_back", path_, false);
    }

    Result<void> sync() override {
      if (auto allowed = disk_.begin("sync", path_, false); !allowed) return allowed;
      const std::lock_guard lock(disk_.mutex_);
      node_->durable = node_->bytes;
      node_->unsynced.clear();
      return {};
    }

   private:
    SimulatedDisk& disk_;
    std::shared_ptr<Node> node_;
    Path path_;
  };

  class SimulatedMappedFile final : public storage::MappedFile {
   public:
    SimulatedMappedFile(SimulatedDisk& disk, std::shared_ptr<Node> node, Path path)
        : disk_(disk), node_(std::move(node)), path_(std::move(path)) {}

    std::span<std::byte> bytes() override { return node_->bytes; }
    [[nodiscard]] std::uint64_t page_bytes() const override { return simulated_page_bytes; }

    // Copies exactly this range, so that other threads may store beside it meanwhile.
    Result<void> sync(std::uint64_t offset, std::uint64_t byte_count) override {
      const auto allowed = disk_.begin("sync", path_, false);
      const std::lock_guard lock(disk_.mutex_);
      if (allowed) node_->durable.resize(node_->bytes.size());
      for (std::uint64_t end = offset + byte_count; offset < end;) {
        const std::uint64_t page_end = (offset / simulated_page_bytes + 1) * simulated_page_bytes;
        const std::uint64_t piece_end = std::min(end, page_end);
        sync_piece(static_cast<std::size_t>(offset), static_cast<std::size_t>(piece_end), allowed.ok());
        offset = piece_end;
      }
      if (!allowed) return allowed;
      if (disk_.find(path_) != node_)
        return fail(Errc::not_found, path_.string() + " was removed while in use");
      return {};
    }

    void prepare(std::uint64_t, std::uint64_t) override {}

   private:
    void sync_piece(std::size_t from, std::size_t to, bool succeeds) {
      const std::size_t page = from / simulated_page_bytes;
      const auto at = node_->bytes.begin();
      const Bytes stored(at + static_cast<std::ptrdiff_t>(from), at + static_cast<std::ptrdiff_t>(to));
      if (!succeeds) {
        node_->dropped[page] = stored;
        return;
      }
      const auto dropped = node_->dropped.find(page);
      const bool clean = dropped != node_->dropped.end() && dropped->second == stored;
      if (clean) return;
      std::copy(stored.begin(), stored.end(), node_->durable.begin() + static_cast<std::ptrdiff_t>(from));
    }

    SimulatedDisk& disk_;
    std::shared_ptr<Node> node_;
    Path path_;
  };

  static std::shared_ptr<Node> directory_node() {
    auto node = std::make_shared<Node>();
    node->directory = true;
    return node;
  }

  static void apply(Bytes& to, const Write& write) {
    const std::size_t end = static_cast<std::size_t>(write.offset) + write.bytes.size();
    if (to.size() < end) to.resize(end);
    std::copy(write.bytes.begin(), write.bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(write.offset));
  }

  static Error missing(const Path& path) {
    return fail(Errc::not_found, "cannot open " + path.string() + ": No such file or directory");
  }

  // Counts an operation, and returns whether it takes effect.
  Result<void> begin(const char* operation, const Path& path, bool takes_space) {
    if (observer_) observer_(operation, path);
    const std::lock_guard lock(mutex_);
    ++count_;
    const std::string what = std::string("cannot ") + operation + " " + path.string() + ": ";
    if (count_ > power_until_) return fail(Errc::io, what + "the power is off");
    if (count_ == fail_at_) return fail(fail_code_, what + "it fails, as the test asked");
    if (takes_space && count_ >= full_from_) return fail(Errc::disk_full, what + "No space left on device");
    return {};
  }

  [[nodiscard]] std::shared_ptr<Node> find(const Path& path) const {
    std::shared_ptr<Node> at = root_;
    for (const Path& part : path) {
      const auto child = at->names.find(part.string());
      if (child == at->names.end()) return nullptr;
      at = child->second;
    }
    return at;
  }

  static void collect(const Node& node, const std::string& prefix, std::map<std::string, Bytes>& all) {
    for (const auto& [name, child] : node.names) {
      if (child->directory) {
        collect(*child, prefix + name + "/", all);
      } else {
        all[prefix + name] = child->bytes;
      }
    }
  }

  // A file with two names is copied as one file.
  static std::shared_ptr<Node> copy_of(const std::shared_ptr<Node>& node,
                                       std::map<const Node*, std::shared_ptr<Node>>& copied) {
    std::shared_ptr<Node>& copy = copied[node.get()];
    if (copy) return copy;
    copy = std::make_shared<Node>(*node);
    const std::shared_ptr<Node> made = copy;
    for (auto& [name, child] : made->names) child = copy_of(child, copied);
    for (auto& [name, child] : made->durable_names) child = copy_of(child, copied);
    return made;
  }

  static void survive(Node& node, Survival survival, std::mt19937_64& random) {
    if (survival == Survival::synced) node.names = node.durable_names;
    if (survival == Survival::chance) node.names = mixed_names(node, random);
    node.durable_names = node.names;
    // A mapping from before the crash keeps a node that is no longer in the tree.
    for (auto& [name, child] : node.names) {
      if (child->mapped) child = std::make_shared<Node>(*child);
      node.durable_names[name] = child;
      survive(*child, survival, random);
    }
    if (survival == Survival::synced) node.bytes = node.durable;
    if (survival == Survival::chance)
      node.bytes = node.mapped ? mixed_pages(node, random) : mixed_bytes(node, random);
    node.mapped = false;
    node.dropped.clear();
    node.durable = node.bytes;
    node.unsynced.clear();
  }

  static Bytes mixed_pages(const Node& node, std::mt19937_64& random) {
    enum class Fate { old_page, new_page, torn };
    if (node.durable.empty() && random() % 2 == 0) return {};
    Bytes mixed = node.durable;
    mixed.resize(node.bytes.size());
    for (std::size_t page = 0; page < mixed.size(); page += simulated_page_bytes) {
      const auto fate = static_cast<Fate>(random() % 3);
      const std::size_t page_end = std::min(page + simulated_page_bytes, mixed.size());
      for (std::size_t sector = page; sector < page_end; sector += simulated_sector_bytes) {
        if (fate == Fate::old_page || (fate == Fate::torn && random() % 2 == 0)) continue;
        const auto count = static_cast<std::ptrdiff_t>(std::min(simulated_sector_bytes, page_end - sector));
        const auto from = node.bytes.begin() + static_cast<std::ptrdiff_t>(sector);
        std::copy(from, from + count, mixed.begin() + static_cast<std::ptrdiff_t>(sector));
      }
    }
    return mixed;
  }

  static std::map<std::string, std::shared_ptr<Node>> mixed_names(const Node& node, std::mt19937_64& random) {
    auto mixed = node.durable_names;
    const auto decide = [&](const std::string& name) {
      if (random() % 2 == 0) return;
      const auto live = node.names.find(name);
      if (live == node.names.end()) {
        mixed.erase(name);
      } else {
        mixed[name] = live->second;
      }
    };
    for (const auto& [name, child] : node.durable_names) decide(name);
    for (const auto& [name, child] : node.names)
      if (!node.durable_names.contains(name)) decide(name);
    return mixed;
  }

  static Bytes mixed_bytes(const Node& node, std::mt19937_64& random) {
    Bytes mixed = node.durable;
    for (Write write : node.unsynced) {
      if (random() % 2 == 0) continue;
      write.bytes.resize(random() % (write.bytes.size() + 1));
      apply(mixed, write);
    }
    return mixed;
  }

  static Error no_space(const std::string& operation, const Path& path) {
    return fail(Errc::disk_full, "cannot " + operation + " " + path.string() + ": No space left on device");
  }
  static std::uint64_t space_of(const Node& node) {
    std::uint64_t bytes = std::min(node.bytes.size(), node.released_from);
    for (const auto& [name, child] : node.names) bytes += space_of(*child);
    return bytes;
  }
  // The caller holds the lock. A linked file counts twice.
  [[nodiscard]] std::uint64_t free_space_left() const {
    if (capacity_ == never) return never;
    const std::uint64_t taken = space_of(*root_);
    return taken < capacity_ ? capacity_ - taken : 0;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Node> root_ = directory_node();
  std::map<std::string, std::weak_ptr<int>> lock_holders_;
  std::function<void(const char*, const Path&)> observer_;
  std::map<Path, storage::DataRange> worn_;
  bool links_ = true;
  std::atomic<std::uint64_t> asides_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t fail_at_ = never;
  Errc fail_code_ = Errc::io;
  std::uint64_t full_from_ = never;
  std::uint64_t capacity_ = never;
  std::uint64_t power_until_ = never;
};

}  // namespace sepal::test
