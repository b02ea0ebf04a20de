// Packs the files of a data directory into one piece of bytes, and unpacks them. Puts checksums right after a
// change: with this a test can write wrong headers, and a fuzzer gets past the checksums.
//
//     container = mode (1 byte)  file*          file = name length (1 byte), name, length (3 bytes), contents
//
// Every piece of bytes is a container: a length beyond the end means the end.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>

#include "simulated_disk.hpp"

namespace sepal::test {

using FileMap = std::map<std::string, Bytes>;

inline constexpr std::uint8_t mode_reseal = 1;    // of a container: puts checksums and seals right
inline constexpr std::uint8_t mode_relength = 2;  // puts the lengths in the MANIFEST right

struct Container {
  std::uint8_t mode = 0;
  FileMap files;
};

inline Bytes pack(const Container& container) {
  Bytes bytes{std::byte{container.mode}};
  for (const auto& [name, contents] : container.files) {
    bytes.push_back(static_cast<std::byte>(name.size()));
    for (const char c : name) bytes.push_back(static_cast<std::byte>(c));
    for (int shift = 0; shift < 24; shift += 8)
      bytes.push_back(static_cast<std::byte>(contents.size() >> shift));
    bytes.insert(bytes.end(), contents.begin(), contents.end());
  }
  return bytes;
}

inline Container unpack(std::span<const std::byte> bytes) {
  const auto take = [&](std::size_t count) {
    const auto taken = bytes.first(std::min(count, bytes.size()));
    bytes = bytes.subspan(taken.size());
    return taken;
  };
  const auto number = [&](std::size_t count) {
    std::size_t value = 0;
    std::size_t shift = 0;
    for (const std::byte byte : take(count)) {
      value |= static_cast<std::size_t>(byte) << shift;
      shift += 8;
    }
    return value;
  };
  Container container;
  container.mode = static_cast<std::uint8_t>(number(1));
  while (!bytes.empty()) {
    const auto name = take(number(1));
    const auto contents = take(number(3));
    container.files[std::string(reinterpret_cast<const char*>(name.data()), name.size())].assign(
        contents.begin(), contents.end());
  }
  return container;
}

// Names that cannot be in a path would only test the disk.
inline void drop_odd_names(Container& container) {
  const auto odd = [](const std::string& path) {
    return path.empty() || path.find('\0') != std::string::npos || path.front() == '/' ||
           path.back() == '/' || path.find("//") != std::string::npos || path.find('.') != std::string::npos;
  };
  std::erase_if(container.files, [&](const auto& file) { return odd(file.first); });
}

// Reads the first `count` bytes of a head; heads of older versions are shorter.
template <class Structure>
bool read_structure(const Bytes& from, std::size_t offset, Structure& into,
                    std::size_t count = sizeof(Structure)) {
  if (from.size() < count || offset > from.size() - count) return false;
  std::memcpy(&into, from.data() + offset, count);
  return true;
}

template <class Structure>
void write_structure(Bytes& to, std::size_t offset, const Structure& from) {
  std::memcpy(to.data() + offset, &from, sizeof from);
}

// Puts the right checksums into a filter file as far as its lengths make sense. Returns its seal.
class Resealer {
 public:
  explicit Resealer(Bytes& file) : file_(file) {}

  std::uint64_t run() {
    namespace format = storage::format;
    if (!checksum(sizeof(format::FilterFileHeader) - format::checksum_bytes)) return seal_.value();
    for (format::RecordHead head; read_structure(file_, at_, head);) {
      if (!checksum(sizeof head + head.key_bytes + head.image_bytes)) break;
      std::uint64_t left = head.bitmap_bytes;
      while (left > 0) {
        const std::uint64_t count = std::min<std::uint64_t>(left, format::chunk_bytes);
        if (!checksum(count)) return seal_.value();
        left -= count;
      }
    }
    return seal_.value();
  }

 private:
  // Puts the checksum of the next `count` bytes behind them.
  bool checksum(std::uint64_t count) {
    const std::size_t left = file_.size() - at_;
    if (left < storage::format::checksum_bytes || count > left - storage::format::checksum_bytes)
      return false;
    const auto covered = std::span<const std::byte>(file_).subspan(at_, static_cast<std::size_t>(count));
    const storage::format::U64 value(Checksum::of(covered));
    at_ += covered.size();
    write_structure(file_, at_, value);
    at_ += sizeof value;
    seal_.update(storage::format::bytes_of(value));
    return true;
  }

  Bytes& file_;
  std::size_t at_ = 0;
  Checksum seal_;
};

// Puts the given files and the right checksum into a MANIFEST.
inline void reseal_manifest(Bytes& manifest, const std::string& folder, FileMap& files, std::uint8_t mode) {
  namespace format = storage::format;
  format::ManifestHead head;
  if (!read_structure(manifest, 0, head)) return;
  const std::size_t head_bytes = format::manifest_head_bytes(head.version);
  if (manifest.size() < head_bytes + format::checksum_bytes) return;
  std::size_t at = head_bytes + head.writer_bytes;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  format::ManifestFile entry;
  for (std::uint32_t i = 0; i < head.file_count && read_structure(manifest, at, entry); ++i) {
    const std::size_t name_at = at + sizeof entry;
    if (entry.name_bytes > manifest.size() - name_at) break;
    const std::string name(reinterpret_cast<const char*>(manifest.data()) + name_at, entry.name_bytes);
    if (const auto file = files.find(folder + name); file != files.end()) {
      entry.seal = Resealer(file->second).run();
      if ((mode & mode_relength) != 0) entry.byte_count = file->second.size();
      write_structure(manifest, at, entry);
    }
    bytes += entry.byte_count;
    records += entry.record_count;
    at = name_at + entry.name_bytes;
  }
  if ((mode & mode_relength) != 0) {
    head.byte_count = bytes;
    head.filter_count = records;
    std::memcpy(manifest.data(), &head, head_bytes);
  }
  const std::size_t covered = manifest.size() - format::checksum_bytes;
  write_structure(manifest, covered, format::U64(Checksum::of(std::span(manifest).first(covered))));
}

inline void reseal_line(Bytes& file, const std::string& kind) {
  const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::string prefix = "SEPAL-" + kind + " 1 ";
  if (!text.starts_with(prefix)) return;
  const std::string line = storage::format::sealed_line(
      kind, text.substr(prefix.size(), text.find(' ', prefix.size()) - prefix.size()));
  const auto bytes = storage::format::bytes_of(std::string_view(line));
  file.assign(bytes.begin(), bytes.end());
}

inline void reseal(FileMap& files, std::uint8_t mode = mode_reseal | mode_relength) {
  constexpr std::string_view manifest_name = "MANIFEST";
  for (auto& [path, contents] : files) {
    if (path.ends_with("CURRENT")) reseal_line(contents, "CURRENT");
    if (path.ends_with("SEED")) reseal_line(contents, "SEED");
    if (path.ends_with(manifest_name))
      reseal_manifest(contents, path.substr(0, path.size() - manifest_name.size()), files, mode);
  }
}

}  // namespace sepal::test
