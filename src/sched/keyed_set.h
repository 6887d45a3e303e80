// SPDX-License-Identifier: Apache-2.0
// A hash set of small numbers that stand for things kept elsewhere, looked up by a key those things have.
// Holding numbers instead of keys makes it three to five times smaller than a map, which is what keeps a queued
// request under 200 bytes.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <type_traits>

namespace tutti {

inline std::uint64_t mix(std::uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// `KeyOf` is a function object: number -> key; keys are integers, or have hash() and ==.
template <typename KeyOf>
class KeyedSet {
 public:
  using Key = std::invoke_result_t<KeyOf, std::uint32_t>;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit KeyedSet(KeyOf key_of) : set_(0, Hash{key_of}, Equal{key_of}) {}

  bool insert(std::uint32_t number) { return set_.insert(number).second; }  // false: that key is here already
  std::uint32_t find(const Key& key) const {
    const auto it = set_.find(Wanted{key});
    return it == set_.end() ? kNone : *it;
  }
  // Removes exactly this number; does nothing if its key is held by another.
  void erase(std::uint32_t number) {
    const auto it = set_.find(number);
    if (it == set_.end() || *it != number) return;
    set_.erase(it);
    if (set_.empty() && set_.bucket_count() > kKept) set_ = Set(0, set_.hash_function(), set_.key_eq());
  }
  std::size_t size() const { return set_.size(); }
  bool empty() const { return set_.empty(); }

 private:
  struct Wanted {
    Key key;
  };
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    KeyOf key_of;
    std::size_t operator()(std::uint32_t number) const { return of(key_of(number)); }
    std::size_t operator()(const Wanted& wanted) const { return of(wanted.key); }
    static std::size_t of(const Key& key) {
      if constexpr (std::is_integral_v<Key>)
        return mix(key);
      else
        return key.hash();
    }
  };
  struct Equal {
    using is_transparent = void;
    KeyOf key_of;
    bool operator()(std::uint32_t a, std::uint32_t b) const { return a == b || key_of(a) == key_of(b); }
    bool operator()(const Wanted& a, std::uint32_t b) const { return a.key == key_of(b); }
    bool operator()(std::uint32_t a, const Wanted& b) const { return key_of(a) == b.key; }
  };
  static constexpr std::size_t kKept = 32768;  // room that an empty set keeps
  using Set = boost::unordered_flat_set<std::uint32_t, Hash, Equal>;

  Set set_;
};

}  // namespace tutti
