#include "segmenter/layered_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace seam {
namespace {

constexpr double kGapX = 28, kGapY = 30;
constexpr int kOrderSweeps = 12, kPlaceSweeps = 64;

struct Item {  // A node, an edge's label, or a place that an edge passes.
  double width = 0, height = 0, x = 0, y = 0;
  int layer = 0;
  double weight = 1;  // How much it wants to be straight below and above its neighbours.
  std::vector<int> above, below;
};

class LayeredLayout {
 public:
  LayeredLayout(std::vector<LayoutNode>& nodes, std::vector<LayoutEdge>& edges)
      : nodes_(nodes), edges_(edges) {}

  LayoutSize Run() {
    AddNodes();
    AddEdges();
    Order();
    Place();
    return Finish();
  }

 private:
  // Nodes are in even layers, labels in odd ones. What has no edge into it moves down to its first
  // target.
  void AddNodes() {
    const int n = static_cast<int>(nodes_.size());
    std::vector<int> layer(n, 0), missing(n, 0), ready;
    std::vector<std::vector<int>> out(n);
    for (const LayoutEdge& e : edges_) {
      out[e.from].push_back(e.to);
      ++missing[e.to];
    }
    for (int i = 0; i < n; ++i) {
      if (missing[i] == 0) ready.push_back(i);
    }
    const std::vector<int> sources = ready;
    for (size_t i = 0; i < ready.size(); ++i) {
      for (int to : out[ready[i]]) {
        layer[to] = std::max(layer[to], layer[ready[i]] + 2);
        if (--missing[to] == 0) ready.push_back(to);
      }
    }
    for (int i : sources) {
      int first = layer[i] + 2;
      if (!out[i].empty()) {
        first = layer[out[i][0]];
        for (int to : out[i]) first = std::min(first, layer[to]);
      }
      layer[i] = first - 2;
    }
    for (int i = 0; i < n; ++i) {
      Item item;
      item.width = nodes_[i].width;
      item.height = nodes_[i].height;
      item.layer = layer[i];
      Add(item);
    }
  }

  int Add(const Item& item) {
    items_.push_back(item);
    if (static_cast<int>(layers_.size()) <= item.layer) layers_.resize(item.layer + 1);
    layers_[item.layer].push_back(static_cast<int>(items_.size()) - 1);
    return static_cast<int>(items_.size()) - 1;
  }

  void AddEdges() {
    for (const LayoutEdge& e : edges_) {
      std::vector<int> chain = {e.from};
      for (int layer = items_[e.from].layer + 1; layer < items_[e.to].layer; ++layer) {
        Item item;
        item.layer = layer;
        item.weight = 8;
        if (chain.size() == 1) {
          item.width = e.label_width;
          item.height = e.label_height;
        }
        chain.push_back(Add(item));
      }
      chain.push_back(e.to);
      for (size_t i = 0; i + 1 < chain.size(); ++i) {
        items_[chain[i]].below.push_back(chain[i + 1]);
        items_[chain[i + 1]].above.push_back(chain[i]);
      }
      chains_.push_back(std::move(chain));
    }
  }

  // Few crossings: each layer is sorted by the mean position of the neighbours in the layer before.
  void Order() {
    std::vector<double> position(items_.size());
    for (const auto& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) position[layer[i]] = static_cast<double>(i);
    }
    std::vector<double> mean(items_.size());
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t n = 0; n < layers_.size(); ++n) {
        auto& layer = layers_[down ? n : layers_.size() - 1 - n];
        for (int i : layer) {
          const auto& neighbours = down ? items_[i].above : items_[i].below;
          double sum = 0;
          for (int j : neighbours)
            sum += (position[j] + 0.5) / static_cast<double>(layers_[items_[j].layer].size());
          mean[i] = neighbours.empty() ? (position[i] + 0.5) / static_cast<double>(layer.size())
                                       : sum / static_cast<double>(neighbours.size());
        }
        std::stable_sort(layer.begin(), layer.end(),
                         [&](int a, int b) { return mean[a] < mean[b]; });
        for (size_t i = 0; i < layer.size(); ++i) position[layer[i]] = static_cast<double>(i);
      }
    }
  }

  // The places of a layer nearest to the wished ones in the sense of least squares, in order and
  // without overlap: pool adjacent violators on the places less the widths to their left.
  void PlaceLayer(const std::vector<int>& layer, const std::vector<double>& wish) {
    struct Block {
      double sum, weight;
      size_t count;
    };
    std::vector<Block> blocks;
    std::vector<double> offset(layer.size());
    for (size_t i = 0; i < layer.size(); ++i) {
      if (i > 0) {
        offset[i] =
            offset[i - 1] + (items_[layer[i - 1]].width + items_[layer[i]].width) / 2 + kGapX;
      }
      const double weight = items_[layer[i]].weight;
      blocks.push_back({(wish[i] - offset[i]) * weight, weight, 1});
      while (blocks.size() > 1) {
        const Block& last = blocks.back();
        Block& before = blocks[blocks.size() - 2];
        if (before.sum / before.weight <= last.sum / last.weight) break;
        before = {before.sum + last.sum, before.weight + last.weight, before.count + last.count};
        blocks.pop_back();
      }
    }
    size_t i = 0;
    for (const Block& block : blocks) {
      for (size_t n = 0; n < block.count; ++n, ++i)
        items_[layer[i]].x = block.sum / block.weight + offset[i];
    }
  }

  void Place() {
    for (const auto& layer : layers_) PlaceLayer(layer, std::vector<double>(layer.size(), 0));
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t n = 0; n < layers_.size(); ++n) {
        const auto& layer = layers_[down ? n : layers_.size() - 1 - n];
        std::vector<double> wish;
        for (int i : layer) {
          double sum = 0, weight = 0;
          for (const auto* neighbours : {&items_[i].above, &items_[i].below}) {
            for (int j : *neighbours) {
              const double w = items_[i].weight * items_[j].weight;
              sum += items_[j].x * w;
              weight += w;
            }
          }
          wish.push_back(weight > 0 ? sum / weight : items_[i].x);
        }
        PlaceLayer(layer, wish);
      }
    }
    double y = 0;
    heights_.resize(layers_.size());
    for (size_t n = 0; n < layers_.size(); ++n) {
      for (int i : layers_[n]) heights_[n] = std::max(heights_[n], items_[i].height);
      for (int i : layers_[n]) items_[i].y = y + heights_[n] / 2;
      if (!layers_[n].empty()) y += heights_[n] + kGapY;
    }
  }

  // Where the edges of a node meet its side: side by side, in the order of where they go.
  double Port(int node, int neighbour, const std::vector<int>& neighbours) const {
    std::vector<int> sorted = neighbours;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int a, int b) { return items_[a].x < items_[b].x; });
    const double index =
        static_cast<double>(std::find(sorted.begin(), sorted.end(), neighbour) - sorted.begin());
    const double count = static_cast<double>(sorted.size());
    const double step = std::min(48.0, std::max(0.0, items_[node].width - 32) / count);
    return items_[node].x + (index - (count - 1) / 2) * step;
  }

  LayoutSize Finish() {
    double left = 0, right = 0, height = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      left = i == 0 ? item.x - item.width / 2 : std::min(left, item.x - item.width / 2);
      right = i == 0 ? item.x + item.width / 2 : std::max(right, item.x + item.width / 2);
      height = std::max(height, item.y + item.height / 2);
    }
    for (Item& item : items_) item.x -= left;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].x = items_[i].x;
      nodes_[i].y = items_[i].y;
    }
    for (size_t n = 0; n < edges_.size(); ++n) {
      const std::vector<int>& chain = chains_[n];
      LayoutEdge& edge = edges_[n];
      const Item& from = items_[chain.front()];
      const Item& to = items_[chain.back()];
      const auto bottom = [&](const Item& item) { return item.y + heights_[item.layer] / 2; };
      const auto top = [&](const Item& item) { return item.y - heights_[item.layer] / 2; };
      const double start = Port(chain.front(), chain[1], from.below);
      edge.route.push_back({start, from.y + from.height / 2});
      if (from.height < heights_[from.layer]) edge.route.push_back({start, bottom(from)});
      const bool direct = chain.size() == 3 && edge.label_height == 0;
      for (size_t i = 1; i + 1 < chain.size() && !direct;
           ++i) {  // Straight past the boxes of a layer.
        const Item& item = items_[chain[i]];
        edge.route.push_back({item.x, top(item)});
        if (heights_[item.layer] > 0) edge.route.push_back({item.x, bottom(item)});
      }
      const double end = Port(chain.back(), chain[chain.size() - 2], to.above);
      if (to.height < heights_[to.layer]) edge.route.push_back({end, top(to)});
      edge.route.push_back({end, to.y - to.height / 2});
      edge.label = {items_[chain[1]].x, items_[chain[1]].y};
    }
    return {right - left, height};
  }

  std::vector<LayoutNode>& nodes_;
  std::vector<LayoutEdge>& edges_;
  std::vector<Item> items_;
  std::vector<std::vector<int>> layers_, chains_;
  std::vector<double> heights_;  // Of the layers.
};

}  // namespace

LayoutSize LayOut(std::vector<LayoutNode>& nodes, std::vector<LayoutEdge>& edges) {
  return LayeredLayout(nodes, edges).Run();
}

}  // namespace seam
