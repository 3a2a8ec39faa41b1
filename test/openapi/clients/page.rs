// The client of OpenAPI Generator: the number of clients of the organization, read page by page. It shows no headers, so a page continues
// after the last record of the page before.
use std::{collections::HashSet, env};

use openapi::apis::{clients_api::list_clients, configuration::Configuration};

fn main() {
    let mut configuration = Configuration::new();
    configuration.base_path = env::var("API_URL").unwrap();
    configuration.bearer_access_token = env::var("API_KEY").ok();
    let mut seen = HashSet::new();
    let mut before: Option<String> = None;
    loop {
        let page = list_clients(&configuration, Some(200), before.as_deref(), None).unwrap();
        seen.extend(page.data.iter().map(|record| record.id.clone()));
        if page.data.len() < 200 {
            break;
        }
        before = page.data.last().map(|record| record.id.clone());
    }
    println!("{}", seen.len());
}
