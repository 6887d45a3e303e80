// SPDX-License-Identifier: Apache-2.0
// The Lustre layout of a file, as darshan-dxt-parser prints it: which OST holds which bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::trace {

inline constexpr std::uint32_t kMostOsts = 1 << 16;  // numbers of OSTs are below this

// Bytes of a row on one OST.
struct DxtPiece {
  std::uint32_t ost = 0;
  std::uint64_t offset = 0;  // in the file, of the first of these bytes
  std::uint64_t length = 0;  // all bytes on this OST; between stripes there are bytes of other OSTs
};

// A plain layout is one component that holds the whole file. Not thread-safe.
class DxtLayout {
 public:
  // Reads a comment line, without "#" and "DXT,". Lines about one component add to each other. Returns a text if
  // something in the line cannot be used.
  //   Lustre stripe_size: N, Lustre stripe_count: M
  //   Lustre OST obdidx: A B ...
  //   [Component I] stripe_ext: N - N|EOF, stripe_size: N, stripe_count: M, OSTs: A B ...
  const char* read(std::string_view line);

  // At least one component has a stripe size and OSTs.
  bool usable() const;
  // Nothing: no component, or several, hold this byte.
  std::optional<std::uint32_t> ost_of(std::uint64_t offset) const;
  // Adds one piece for each stripe position that holds some of the bytes, and component: those of one position follow
  // each other in an object. False, and nothing is added: some of the bytes are in no component, or in several
  // (mirrors). offset + length is at most 2^63.
  bool split(std::uint64_t offset, std::uint64_t length, std::vector<DxtPiece>& pieces) const;

 private:
  struct Component {
    std::uint64_t number = 0;  // as printed; 0: of a plain layout
    std::uint64_t begin = 0, end = ~std::uint64_t{0};
    std::uint64_t stripe_size = 0;   // 0: not known
    std::uint64_t stripe_count = 0;  // as printed; 0: not known
    std::vector<std::uint32_t> osts{};

    bool usable() const { return stripe_size > 0 && !osts.empty() && begin < end; }
    std::uint64_t below(std::uint64_t offset, std::uint64_t position) const;
    void split(std::uint64_t from, std::uint64_t to, std::vector<DxtPiece>& pieces) const;
  };

  Component* component_of(std::string_view line);

  std::vector<Component> components_;
};

}  // namespace tutti::trace
