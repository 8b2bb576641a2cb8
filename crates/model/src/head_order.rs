//! The order of a head's rows: cluster by cluster where there is a FlashHead.

/// Which token each row of a head is, where rows are not kept in the order of the tokens. Always a permutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadOrder {
    token_of_row: Vec<u32>,
    row_of_token: Vec<u32>,
}

impl HeadOrder {
    /// From the token of each row.
    ///
    /// # Errors
    /// If that is not a permutation of `0 .. len`.
    pub fn new(token_of_row: Vec<u32>) -> Result<Self, String> {
        let vocab = token_of_row.len();
        let mut row_of_token = vec![u32::MAX; vocab];
        for (row, &token) in token_of_row.iter().enumerate() {
            match row_of_token.get_mut(token as usize) {
                None => return Err(format!("expected tokens below {vocab}, found {token}")),
                Some(at) if *at != u32::MAX => {
                    return Err(format!("expected each token once, found {token} twice"));
                }
                Some(at) => *at = row as u32,
            }
        }
        Ok(Self {
            token_of_row,
            row_of_token,
        })
    }

    /// From the clusters of a checkpoint, `[clusters][cluster_size]`. A cluster short of members repeats one: the places of
    /// repeated tokens go to those that no cluster names, in ascending order.
    ///
    /// # Errors
    /// If a token is not below `token_map.len()`.
    pub fn from_token_map(token_map: &[u32]) -> Result<Self, String> {
        let vocab = token_map.len();
        let mut known = vec![false; vocab];
        let mut free = Vec::new();
        let mut token_of_row = token_map.to_vec();
        for (row, &token) in token_map.iter().enumerate() {
            match known.get_mut(token as usize) {
                None => return Err(format!("expected tokens below {vocab}, found {token}")),
                Some(true) => free.push(row),
                Some(known) => *known = true,
            }
        }
        let missing = (0..vocab as u32).filter(|&token| !known[token as usize]);
        for (row, token) in free.into_iter().zip(missing) {
            token_of_row[row] = token;
        }
        Self::new(token_of_row)
    }

    /// The token of each row.
    pub fn token_of_row(&self) -> &[u32] {
        &self.token_of_row
    }

    /// The row of each token.
    pub fn row_of_token(&self) -> &[u32] {
        &self.row_of_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_tokens_make_room_for_those_left_out() {
        let order = HeadOrder::from_token_map(&[3, 3, 0, 5, 5, 5]).expect("an order");
        assert_eq!(order.token_of_row(), [3, 1, 0, 5, 2, 4]);
        assert_eq!(order.row_of_token(), [2, 1, 4, 0, 5, 3]);
        for (map, words) in [(vec![0, 2], "below 2, found 2"), (vec![1, 1], "1 twice")] {
            let refused = HeadOrder::new(map).expect_err("no permutation");
            assert!(refused.contains(words), "{refused}");
        }
        assert!(HeadOrder::from_token_map(&[0, 9]).is_err());
        assert_eq!(
            HeadOrder::from_token_map(&[])
                .expect("empty")
                .token_of_row(),
            [0u32; 0]
        );
    }
}
