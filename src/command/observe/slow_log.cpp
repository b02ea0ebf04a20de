#include <sepal/base/assert.hpp>
#include <sepal/command/observe/slow_log.hpp>

#include <algorithm>
#include <utility>

#include "command/users/secrets.hpp"

namespace sepal::command {
namespace {

std::string shortened(std::string_view word) {
  if (word.size() <= slow_word_bytes_max) return std::string(word);
  std::string text(word.substr(0, slow_word_bytes_max));
  return text + "... (" + std::to_string(word.size() - slow_word_bytes_max) + " more bytes)";
}

}  // namespace

std::vector<std::string> slow_words(std::span<const std::string_view> words, std::uint64_t times) {
  SEPAL_ASSERT(!words.empty() && times > 0, "an entry of the slow log without a request");
  const bool all_fit = words.size() <= slow_words_max;
  const std::size_t shown = all_fit ? words.size() : slow_words_max - 1;
  // Looked for in the whole request, before words are cut: earlier words tell which word is a secret.
  const Secrets secrets(words);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < shown; ++at) texts.push_back(shortened(secrets.shown(at)));
  if (!all_fit) texts.push_back("... (" + std::to_string(words.size() - shown) + " more arguments)");
  if (times > 1) texts.push_back("... (" + std::to_string(times - 1) + " more requests measured together)");
  return texts;
}

std::size_t SlowEntry::byte_count() const {
  std::size_t bytes = sizeof(SlowEntry) + words.capacity() * sizeof(std::string) + address.capacity() +
                      client_name.capacity();
  for (const std::string& word : words) bytes += word.capacity();
  return bytes;
}

void SlowLog::add(SlowEntry entry, std::uint64_t count_max) {
  const MutexLock lock(mutex_);
  // Under the lock, so that the ids are in the order of the list. If the bound is 0, the entry takes an id
  // all the same, and is dropped below.
  entry.id = next_id_++;
  entries_.push_front(std::move(entry));
  byte_count_ += entries_.front().byte_count();
  const auto kept = static_cast<std::size_t>(std::min<std::uint64_t>(count_max, slow_entries_max));
  // More than one entry goes if a client has lowered slowlog-max-len.
  while (entries_.size() > kept || byte_count_ > slow_log_bytes_max) {
    byte_count_ -= entries_.back().byte_count();
    entries_.pop_back();
  }
}

std::vector<SlowEntry> SlowLog::newest(std::uint64_t count) const {
  // The entries are copies, so SLOWLOG GET writes its reply without the lock.
  const MutexLock lock(mutex_);
  const auto taken = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, entries_.size()));
  return {entries_.begin(), entries_.begin() + taken};
}

std::size_t SlowLog::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

void SlowLog::reset() {
  const MutexLock lock(mutex_);
  entries_.clear();
  byte_count_ = 0;
}

}  // namespace sepal::command
