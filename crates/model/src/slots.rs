//! The places a model's tensors go to, each with its name and shape: the model's specification as a list.

use std::fmt;

use crate::config::Config;

/// A place for a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatrixSlot {
    /// `[vocab, hidden]`.
    Embedding,
    /// `[vocab, hidden]`; absent when tied.
    Head,
    /// `[heads * head_dim, hidden]` of a layer.
    Query(usize),
    /// `[kv_heads * head_dim, hidden]` of a layer.
    Key(usize),
    /// `[kv_heads * head_dim, hidden]` of a layer.
    Value(usize),
    /// `[hidden, heads * head_dim]` of a layer.
    Output(usize),
    /// `[experts, hidden]` of a layer.
    Router(usize),
    /// A projection of a layer's expert.
    Expert(usize, usize, Projection),
}

/// The three matrices of an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Projection {
    /// `[expert_hidden, hidden]`.
    Gate,
    /// `[expert_hidden, hidden]`.
    Up,
    /// `[hidden, expert_hidden]`.
    Down,
}

impl Projection {
    /// All three, in the order of the forward pass.
    pub const ALL: [Projection; 3] = [Projection::Gate, Projection::Up, Projection::Down];

    /// Its name in checkpoints.
    pub fn name(self) -> &'static str {
        match self {
            Projection::Gate => "gate_proj",
            Projection::Up => "up_proj",
            Projection::Down => "down_proj",
        }
    }
}

impl MatrixSlot {
    /// Every matrix of the model, in the order in which weights are kept: embedding, head, then layer by layer.
    pub fn all(config: &Config) -> impl Iterator<Item = MatrixSlot> + use<> {
        let head = (!config.tied).then_some(MatrixSlot::Head);
        let (layers, experts) = (config.layers.len(), config.experts);
        let of_layer = move |l| {
            let attention = [
                MatrixSlot::Query,
                MatrixSlot::Key,
                MatrixSlot::Value,
                MatrixSlot::Output,
                MatrixSlot::Router,
            ];
            let of_expert = move |e| {
                Projection::ALL
                    .into_iter()
                    .map(move |p| MatrixSlot::Expert(l, e, p))
            };
            attention
                .into_iter()
                .map(move |slot| slot(l))
                .chain((0..experts).flat_map(of_expert))
        };
        [MatrixSlot::Embedding]
            .into_iter()
            .chain(head)
            .chain((0..layers).flat_map(of_layer))
    }

    /// `[rows, columns]`.
    pub fn shape(self, config: &Config) -> (usize, usize) {
        match self {
            MatrixSlot::Embedding | MatrixSlot::Head => (config.vocab, config.hidden),
            MatrixSlot::Query(_) => (config.query_rows(), config.hidden),
            MatrixSlot::Key(_) | MatrixSlot::Value(_) => (config.kv_rows(), config.hidden),
            MatrixSlot::Output(_) => (config.hidden, config.query_rows()),
            MatrixSlot::Router(_) => (config.experts, config.hidden),
            MatrixSlot::Expert(_, _, Projection::Gate | Projection::Up) => {
                (config.expert_hidden, config.hidden)
            }
            MatrixSlot::Expert(_, _, Projection::Down) => (config.hidden, config.expert_hidden),
        }
    }

    /// A projection of the attention block.
    pub fn is_attention(self) -> bool {
        matches!(
            self,
            MatrixSlot::Query(_)
                | MatrixSlot::Key(_)
                | MatrixSlot::Value(_)
                | MatrixSlot::Output(_)
        )
    }

    /// A projection of an expert.
    pub fn is_expert(self) -> bool {
        matches!(self, MatrixSlot::Expert(..))
    }
}

/// The name in Hugging Face checkpoints, without the ending `.weight`.
impl fmt::Display for MatrixSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixSlot::Embedding => f.write_str("model.word_embeddings"),
            MatrixSlot::Head => f.write_str("lm_head"),
            MatrixSlot::Query(l) => write!(f, "model.layers.{l}.self_attn.q_proj"),
            MatrixSlot::Key(l) => write!(f, "model.layers.{l}.self_attn.k_proj"),
            MatrixSlot::Value(l) => write!(f, "model.layers.{l}.self_attn.v_proj"),
            MatrixSlot::Output(l) => write!(f, "model.layers.{l}.self_attn.o_proj"),
            MatrixSlot::Router(l) => write!(f, "model.layers.{l}.mlp.gate"),
            MatrixSlot::Expert(l, e, p) => {
                write!(f, "model.layers.{l}.mlp.experts.{e}.{}", p.name())
            }
        }
    }
}

/// A place for the weights of an RMS norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormSlot {
    /// Before a layer's attention: `[hidden]`.
    Input(usize),
    /// Of a layer's query heads: `[head_dim]`.
    Query(usize),
    /// Of a layer's key heads: `[head_dim]`.
    Key(usize),
    /// Before a layer's experts: `[hidden]`.
    PostAttention(usize),
    /// Before the head: `[hidden]`.
    Final,
}

impl NormSlot {
    /// Every norm of the model: the final one, then layer by layer.
    pub fn all(config: &Config) -> impl Iterator<Item = NormSlot> + use<> {
        let of_layer = |l| {
            [
                NormSlot::Input,
                NormSlot::Query,
                NormSlot::Key,
                NormSlot::PostAttention,
            ]
            .map(|slot| slot(l))
        };
        [NormSlot::Final]
            .into_iter()
            .chain((0..config.layers.len()).flat_map(of_layer))
    }

    /// How many weights it has.
    pub fn len(self, config: &Config) -> usize {
        match self {
            NormSlot::Query(_) | NormSlot::Key(_) => config.head_dim,
            NormSlot::Input(_) | NormSlot::PostAttention(_) | NormSlot::Final => config.hidden,
        }
    }
}

/// The name in Hugging Face checkpoints, without the ending `.weight`.
impl fmt::Display for NormSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NormSlot::Input(l) => write!(f, "model.layers.{l}.input_layernorm"),
            NormSlot::Query(l) => write!(f, "model.layers.{l}.self_attn.q_norm"),
            NormSlot::Key(l) => write!(f, "model.layers.{l}.self_attn.k_norm"),
            NormSlot::PostAttention(l) => write!(f, "model.layers.{l}.post_attention_layernorm"),
            NormSlot::Final => f.write_str("model.norm"),
        }
    }
}
