#include "scheduler/kernel/tile.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/kernel/access.h"

namespace seam::kernel {
namespace {

const char* PlaceName(Place place) {
  switch (place) {
    case Place::Vector:
      return "vector";
    case Place::Register:
      return "register";
    case Place::Lane:
      return "lane";
    case Place::Warp:
      return "warp";
    case Place::Cluster:
      return "cluster";
    case Place::Grid:
      return "grid";
    case Place::Step:
      return "step";
  }
  return "?";
}

// Per value: whether `of_itself` holds of it or of one that it follows from.
template <typename OfItself>
std::vector<bool> Following(const TileKernel& k, OfItself of_itself) {
  std::vector<bool> follows;
  for (const TileValue& v : k.values) {
    follows.push_back(of_itself(v) ||
                      absl::c_any_of(v.operands, [&](TileId id) { return follows[id]; }) ||
                      absl::c_any_of(v.lets, [&](int let) { return follows[k.lets[let].value]; }));
  }
  return follows;
}

}  // namespace

bool IsOfSection(const TileKernel& k, const TileValue& value) {
  return value.kind == TileKind::ReduceResult &&
         k.reductions[value.reduction].over == Over::Sections;
}

bool DependsOnColumn(const TileKernel& k, SymInt e) {
  return absl::c_any_of(k.spaces, [&](const TileSpace& space) {
    return space.column.is_symbolic() && DependsOn(e, space.column);
  });
}

std::vector<bool> VaryingWithColumn(const TileKernel& k) {
  return Following(k, [&](const TileValue& v) {
    return IsOfSection(k, v) || DependsOnColumn(k, v.index) || DependsOnColumn(k, v.predicate);
  });
}

std::vector<bool> VaryingWithRow(const TileKernel& k) {
  return Following(k, [&](const TileValue& v) {
    return v.kind == TileKind::ReduceResult ||
           (k.row.is_symbolic() && (DependsOn(v.index, k.row) || DependsOn(v.predicate, k.row)));
  });
}

std::string PrintValue(const TileKernel& k, TileId id) {
  const TileValue& v = k.values[id];
  auto operands = [&] {
    return absl::StrJoin(v.operands, ", ",
                         [](std::string* out, TileId id) { absl::StrAppend(out, "%", id); });
  };
  switch (v.kind) {
    case TileKind::Load: {
      std::string text =
          absl::StrCat("load ", k.buffers[v.buffer].name, "[", v.index.ToString(), "]");
      if (!v.predicate.is_same(1)) absl::StrAppend(&text, " if ", v.predicate.ToString());
      return text;
    }
    case TileKind::Map:
      return absl::StrCat(std::string(OpName(v.op)), "(", operands(), ")");
    case TileKind::Constant:
      return IsFloat(v.dtype) ? absl::StrCat("constant ", v.constant.f)
                              : absl::StrCat("constant ", v.constant.i);
    case TileKind::Index:
      return absl::StrCat("index ", v.index.ToString());
    case TileKind::Random:
      return absl::StrCat(std::string(OpName(v.op)), "(", operands(), ", at ", v.index.ToString(),
                          ")");
    case TileKind::ReduceResult:
      return absl::StrCat("result ", v.component, " of reduction ", v.reduction);
  }
  return "?";
}

int64_t Layout::Extent(Axis axis, Place place) const {
  int64_t extent = 1;
  for (const Mode& m : modes) {
    if (m.axis == axis && m.place == place) extent *= m.extent.maybe_int().value_or(1);
  }
  return extent;
}

std::string Layout::ToString() const {
  std::string text;
  for (Axis axis : {Axis::Row, Axis::Column}) {
    absl::StrAppend(&text, axis == Axis::Row ? "row:" : "; column:");
    for (const Mode& m : modes) {
      if (m.axis != axis) continue;
      absl::StrAppend(&text, " ", PlaceName(m.place));
      if (!m.extent.is_same(0)) absl::StrAppend(&text, " ", m.extent.ToString());
      absl::StrAppend(&text, " x", m.stride.ToString());
    }
  }
  return text;
}

std::string PrintTile(const TileKernel& k) {
  std::string text = absl::StrCat("tile ", k.name, " rows ", k.rows.ToString(), "\n");
  for (size_t i = 0; i < k.spaces.size(); ++i) {
    absl::StrAppend(&text, "  space ", i, ": ", k.spaces[i].column.ToString(), " < ",
                    k.spaces[i].extent.ToString(), "\n");
  }
  for (size_t i = 0; i < k.values.size(); ++i) {
    const TileValue& v = k.values[i];
    absl::StrAppend(&text, "  %", i, ": ", std::string(DTypeName(v.dtype)), " = ",
                    PrintValue(k, static_cast<TileId>(i)));
    for (int let : v.lets) {
      absl::StrAppend(&text, " where ", k.lets[let].symbol.ToString(), " = %", k.lets[let].value);
    }
    absl::StrAppend(&text, "\n");
  }
  for (size_t p = 0; p < k.passes.size(); ++p) {
    absl::StrAppend(&text, "  pass ", p, " over space ", k.passes[p].space, "\n");
    for (size_t i = 0; i < k.reductions.size(); ++i) {
      const TileReduction& r = k.reductions[i];
      if (r.pass != static_cast<int>(p)) continue;
      absl::StrAppend(
          &text, "    reduction ", i, " = ",
          r.over == Over::Rows       ? (r.each_batch ? "across rows of a batch " : "across rows ")
          : r.over == Over::All      ? "across all "
          : r.over == Over::Sections ? absl::StrCat("of each ", r.section, " columns, ")
          : r.over == Over::SomeColumns ? absl::StrCat("for each of ", r.kept.ToString(), ", ",
                                                       r.inner.ToString(), " columns apart, ")
                                        : "",
          r.neighbours > 1 ? absl::StrCat("of ", r.neighbours, " neighbouring rows, ") : "",
          r.apart ? "apart in each CTA, " : "", r.merge ? "merge " : "",
          r.products ? "products " : "", std::string(OpName(r.op)), " ",
          std::string(DTypeName(r.dtype)), "(",
          absl::StrJoin(r.operands, ", ",
                        [](std::string* out, TileId id) { absl::StrAppend(out, "%", id); }),
          ")",
          r.exponential ? absl::StrCat(" and sum of ", std::string(OpName(*r.exponential))) : "",
          "\n");
    }
    for (const TileStore& s : k.stores) {
      if (s.pass != static_cast<int>(p)) continue;
      absl::StrAppend(&text, "    store ", k.buffers[s.buffer].name, "[", s.index.ToString(),
                      "] = %", s.value);
      if (s.section > 1) absl::StrAppend(&text, " once each ", s.section, " columns");
      if (!s.predicate.is_same(1)) absl::StrAppend(&text, " if ", s.predicate.ToString());
      absl::StrAppend(&text, "\n");
    }
  }
  return text;
}

}  // namespace seam::kernel
